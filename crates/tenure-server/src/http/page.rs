//! The page that shows elections. Its files are in [`ui`](crate::ui).

use axum::extract::Path;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;

use super::problem::ProblemResponse;
use super::routes::unknown_route;
use crate::ui;

pub(super) async fn page(request: HeaderMap) -> Response {
    ui::page(&request)
}

pub(super) async fn file(
    Path(name): Path<String>,
    uri: Uri,
    request: HeaderMap,
) -> Result<Response, ProblemResponse> {
    match ui::file(&name, &request) {
        Some(response) => Ok(response),
        None => Err(unknown_route(uri).await),
    }
}
