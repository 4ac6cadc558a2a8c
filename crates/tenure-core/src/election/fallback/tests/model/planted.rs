//! Mistakes that the model must find.
