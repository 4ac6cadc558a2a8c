//! The facts about a request that `object_store` does not tell: how far it came, its status and its
//! date.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use tenure_core::UnixMillis;
use tenure_core::time::millis;

use crate::BoxFuture;

tokio::task_local! {
    static CURRENT: Arc<Mutex<Answer>>;
}

/// What is known about a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answer {
    pub(super) stage: Stage,
    pub(super) status: Option<u16>,
    pub(super) date: Option<UnixMillis>,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// The client asks for credentials.
    #[default]
    Credentials,
    /// There is no connection to the store.
    NotConnected,
    /// It may have been sent.
    Sent,
}

/// Runs a call of `object_store`, and returns what is known about its last request.
pub(super) async fn observe<F: Future>(call: F) -> (F::Output, Answer) {
    CURRENT
        .scope(Arc::default(), async {
            let output = call.await;
            (output, CURRENT.with(current))
        })
        .await
}

fn current(answer: &Arc<Mutex<Answer>>) -> Answer {
    *answer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the clients of `object_store`, and observes the requests to the bucket with this name. The
/// others are for credentials.
#[derive(Debug)]
pub(super) struct Observing(pub(super) String);

impl HttpConnector for Observing {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Client(client, self.0.clone())))
    }
}

#[derive(Debug)]
struct Client(HttpClient, String);

impl HttpService for Client {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> BoxFuture<'b, Result<HttpResponse, HttpError>>
    where
        'a: 'b,
    {
        let uri = request.uri();
        let is_of_bucket = [uri.host().unwrap_or_default(), uri.path()]
            .iter()
            .any(|part| part.contains(&self.1));
        let note = move |answer: Answer| {
            if is_of_bucket {
                let noted = |noted: &Arc<Mutex<Answer>>| {
                    *noted.lock().unwrap_or_else(PoisonError::into_inner) = answer;
                };
                let _ = CURRENT.try_with(noted);
            }
        };
        Box::pin(async move {
            let mut answer = Answer {
                stage: Stage::Sent,
                ..Answer::default()
            };
            note(answer);
            let response = self.0.execute(request).await;
            match &response {
                Ok(response) => {
                    answer.status = Some(response.status().as_u16());
                    let date = response.headers().get("date");
                    answer.date = date.and_then(|date| {
                        let date = httpdate::parse_http_date(date.to_str().ok()?).ok()?;
                        let since_1970 = date.duration_since(UNIX_EPOCH).ok()?;
                        Some(UnixMillis::new(millis(since_1970)))
                    });
                }
                Err(error) if error.kind() == HttpErrorKind::Connect => {
                    answer.stage = Stage::NotConnected;
                }
                Err(_) => {}
            }
            note(answer);
            response
        })
    }
}
