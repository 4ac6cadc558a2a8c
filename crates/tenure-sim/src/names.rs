//! Names on the command line.

/// The name is unknown. The caller provided it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {kind} {name:?}; did you mean {nearest:?}?")]
pub struct UnknownName {
    /// The kind of the named thing, such as "scenario".
    pub kind: &'static str,
    /// The unknown name.
    pub name: String,
    /// The most similar known name.
    pub nearest: String,
}

/// Returns the element with this name.
///
/// # Errors
///
/// [`UnknownName`], which contains the most similar known name.
///
/// # Panics
///
/// If there are no elements.
pub fn find<T, N: AsRef<str>>(
    kind: &'static str,
    name: &str,
    all: impl IntoIterator<Item = T>,
    name_of: impl Fn(&T) -> N,
) -> Result<T, UnknownName> {
    // The search prefers names with a common prefix.
    let alike = |it: &T| strsim::jaro_winkler(name, name_of(it).as_ref());
    let nearest = all
        .into_iter()
        .max_by(|one, other| alike(one).total_cmp(&alike(other)))
        .expect("a known name");
    if name_of(&nearest).as_ref() == name {
        return Ok(nearest);
    }
    Err(UnknownName {
        kind,
        name: name.into(),
        nearest: name_of(&nearest).as_ref().into(),
    })
}
