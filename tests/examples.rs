//! Every example, as a newcomer starts it.
