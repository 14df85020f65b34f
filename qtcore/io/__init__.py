"""Reading and writing users' files: tables and images."""
