"""Where agents keep their sessions, and those that are databases or folders of several files."""
