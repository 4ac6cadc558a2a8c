mod model;
mod rules;

use super::*;
