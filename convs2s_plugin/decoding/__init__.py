"""What the sequence generator needs beyond fairseq's own."""
