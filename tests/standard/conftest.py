collect_ignore_glob = ["check_*.py"]  # scripts that tests start, for libraries that may be missing
