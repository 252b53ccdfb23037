"""Amazon S3: buckets."""
