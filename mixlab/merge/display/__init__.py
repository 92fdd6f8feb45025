"""What people read: the table of a dry run, its cost, progress, what there is to merge with."""
