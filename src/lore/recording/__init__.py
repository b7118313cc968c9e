"""Names to files, files to turns: finding recordings, opening them, reading them as turns."""
