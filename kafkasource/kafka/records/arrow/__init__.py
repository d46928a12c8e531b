"""Arrow's side of record batches: the columns of rows, and the views of them that the kernel takes."""
