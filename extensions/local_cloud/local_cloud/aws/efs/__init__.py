"""Amazon Elastic File System: file systems, mount targets, access points, and policies."""
