"""Work in shards: in processes of this machine, or as tasks of Ray."""
