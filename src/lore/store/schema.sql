-- The tables of a store in an SQL database; `make_tables` writes a database's own types for the names in braces.

CREATE TABLE sessions (
    session {key},
    session_id {text} NOT NULL UNIQUE,
    project_id {text},
    parent_session_id {text},
    created_at {bytes},
    updated_at {bytes},
    leaf_id {bytes},
    metadata {bytes} NOT NULL,
    head_number {int} NOT NULL CHECK (head_number >= 1),
    head_digest {bytes} NOT NULL CHECK (length(head_digest) = 32),
    head_note {bytes} NOT NULL CHECK (length(head_note) = 32),
    size {int} NOT NULL CHECK (size >= 0),
    user_id {bytes},
    agent_id {bytes},
    turns {int} NOT NULL,
    used_at {bytes}
) {strict};

CREATE INDEX sessions_by_project ON sessions (project_id);

CREATE TABLE events (
    session {int} NOT NULL REFERENCES sessions (session) ON DELETE CASCADE,
    number {int} NOT NULL CHECK (number >= 1),
    line {bytes} NOT NULL,
    digest {bytes} NOT NULL CHECK (length(digest) = 32),
    PRIMARY KEY (session, number)
) {strict};

CREATE TABLE bindings (
    client_key {text} NOT NULL PRIMARY KEY,
    session {int} NOT NULL REFERENCES sessions (session) ON DELETE CASCADE
) {strict};

CREATE INDEX bindings_by_session ON bindings (session);
