//! Subnets and addresses of a lab, out of 198.18.0.0/15 (the benchmark range, RFC 2544), from a hash of the lab's
//! name, avoiding what is taken. Pure: what is taken is an argument.
