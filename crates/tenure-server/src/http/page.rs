//! The page that shows elections. Its files are in [`ui`](crate::ui).

use axum::response::Response;
use tenure_core::wire::Problem;

use super::call::Call;
use super::routes::unknown_route;
use crate::ui;

pub(super) async fn page(call: Call<'_>) -> Result<Response, Problem> {
    Ok(ui::page(&call.head.headers))
}

pub(super) async fn file(call: Call<'_>) -> Result<Response, Problem> {
    let file = ui::file(&call.names.file, &call.head.headers);
    file.ok_or_else(|| unknown_route(call.head.uri.path()))
}
