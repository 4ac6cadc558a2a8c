use std::time::Duration;

use reqwest::{Client, Method, Url};
use tenure_core::lease::candidate::{Timings, TimingsOptions};

use super::{AzureAccount, AzureBlob, AzureBlobError};
use crate::protocol::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

const SIGNATURE: &str = "sv=2022-11-02&sr=c&sp=rcw&sig=c2VjcmV0%2BA%3D";

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn blob_of(connection_string: &str) -> Result<String, AzureBlobError> {
    let account = AzureAccount::with_connection_string(connection_string)?;
    Ok(AzureBlob::new(account, "leases", "job")?.url().to_string())
}

#[test]
fn a_blob_s_url_is_that_of_its_account_and_its_escaped_name() {
    let account = || AzureAccount::with_key("myaccount", DEVELOPMENT_KEY).unwrap();
    let local = account()
        .with_url("http://127.0.0.1:10000/myaccount/")
        .unwrap();
    let public = "https://myaccount.blob.core.windows.net";
    for (name, path) in [
        ("job", "job"),
        ("a/b//c", "a/b//c"),
        ("ä %2F?#+", "%C3%A4%20%252F%3F%23+"),
    ] {
        let of_public = AzureBlob::new(account(), "leases", name).unwrap();
        assert_eq!(of_public.url(), format!("{public}/leases/{path}"));
        let of_local = AzureBlob::new(local.clone(), "leases", name).unwrap();
        let expected = format!("http://127.0.0.1:10000/myaccount/leases/{path}");
        assert_eq!(of_local.url(), expected);
    }
    for bad in ["", ".", "a/../b", "a.", "a/"] {
        let error = AzureBlob::new(account(), "leases", bad).unwrap_err();
        assert_eq!(error, AzureBlobError::Blob(bad.into()));
    }
    let error = AzureBlob::new(account(), "Leases", "job").unwrap_err();
    assert!(error.to_string().contains("\"Leases\" is not"), "{error}");
}

#[test]
fn connection_strings_are_read_as_the_sdks_read_them() {
    let key = DEVELOPMENT_KEY;
    let public = format!("DefaultEndpointsProtocol=https;AccountName=acct;AccountKey={key}");
    for (string, blob) in [
        (
            "UseDevelopmentStorage=true".to_owned(),
            "http://127.0.0.1:10000/devstoreaccount1/leases/job",
        ),
        (
            format!("{public};EndpointSuffix=core.chinacloudapi.cn;"),
            "https://acct.blob.core.chinacloudapi.cn/leases/job",
        ),
        (
            format!("{public};QueueEndpoint=https://q/;BlobEndpoint=http://h:1/acct/"),
            "http://h:1/acct/leases/job",
        ),
        (
            format!(
                "BlobEndpoint=https://acct.blob.core.windows.net/;SharedAccessSignature={SIGNATURE}"
            ),
            "https://acct.blob.core.windows.net/leases/job",
        ),
    ] {
        assert_eq!(blob_of(&string).as_deref(), Ok(blob), "{string}");
    }
    for (wrong, error) in [
        ("", AzureBlobError::Part("AccountName")),
        ("AccountName=acct", AzureBlobError::Part("AccountKey")),
        ("AccountName=acct;AccountKey=!", AzureBlobError::Key),
        (
            "AccountName=Acct;AccountKey=AAAA",
            AzureBlobError::Account("Acct".into()),
        ),
        (
            "BlobEndpoint=nowhere;AccountKey=AAAA",
            AzureBlobError::Part("BlobEndpoint"),
        ),
        (
            "AccountName=acct;SharedAccessSignature=sig",
            AzureBlobError::Signature,
        ),
    ] {
        assert_eq!(blob_of(wrong), Err(error), "{wrong}");
    }
}

#[test]
fn errors_about_urls_and_signatures_contain_no_secret() {
    for bad in [
        "ftp://host",
        "https://host/acct/container",
        "https://host?sv=1&sig=c2VjcmV0",
        "https://user:c2VjcmV0@host",
    ] {
        let error = AzureAccount::with_signature(bad, SIGNATURE).unwrap_err();
        assert!(matches!(error, AzureBlobError::Url(_)), "{bad}");
        assert!(!error.to_string().contains("c2Vjc"), "{error}");
    }
    for bad in [
        "",
        "c2VjcmV0",
        "sv=1&sig=",
        "sv=1&sig=c2VjcmV0 x",
        "sig=c2VjcmV0",
    ] {
        let error = AzureAccount::with_signature("https://host", bad).unwrap_err();
        assert_eq!(error, AzureBlobError::Signature, "{bad}");
        assert!(!error.to_string().contains("c2Vjc"), "{error}");
    }
    let keyed = AzureAccount::with_key(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY).unwrap();
    let signed = AzureAccount::with_signature("https://host", SIGNATURE).unwrap();
    for account in [keyed, signed] {
        let blob = AzureBlob::new(account.clone(), "leases", "job").unwrap();
        let shown = format!("{account:?} {blob:?}");
        assert!(
            !shown.contains("Eby8") && !shown.contains("c2Vjc"),
            "{shown}"
        );
    }
}

#[test]
fn a_signature_is_part_of_the_url_and_a_key_signs_the_request() {
    let resource = url("https://acct.blob.core.windows.net/leases/a%20b");
    let query = [("comp", "lease")];
    let by_signature =
        AzureAccount::with_signature("https://acct.blob.core.windows.net", SIGNATURE).unwrap();
    let asked = by_signature.url_of(&resource, &query);
    assert_eq!(
        asked.query(),
        Some(format!("comp=lease&{SIGNATURE}").as_str())
    );
    let mut request = Client::new().request(Method::PUT, asked).build().unwrap();
    by_signature.sign(&mut request, &query);
    assert!(!request.headers().contains_key("authorization"));

    let by_key = AzureAccount::with_key("acct", DEVELOPMENT_KEY).unwrap();
    let asked = by_key.url_of(&resource, &query);
    let sign = |action: &'static str| {
        let request = Client::new().request(Method::PUT, asked.clone());
        let request = request
            .header("x-ms-lease-action", action)
            .header("content-length", 0);
        let mut request = request.build().unwrap();
        by_key.sign(&mut request, &query);
        // A fixed date, because the clock may have advanced since the request.
        let date = "Sat, 21 Nov 2026 12:00:00 GMT".parse().unwrap();
        request.headers_mut().insert("x-ms-date", date);
        String::from_utf8(super::account::text_to_sign(&request, "acct", &query)).unwrap()
    };
    assert_eq!(
        sign("renew"),
        "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Sat, 21 Nov 2026 12:00:00 GMT\n\
         x-ms-lease-action:renew\n/acct/leases/a%20b\ncomp:lease"
    );
}

#[test]
fn only_lease_durations_that_azure_grants_are_accepted() {
    let account = AzureAccount::with_connection_string("UseDevelopmentStorage=true").unwrap();
    let blob = AzureBlob::new(account, "leases", "job").unwrap();
    let check = |millis, lock_delay| {
        let mut options = TimingsOptions::default();
        options.lease_duration = Some(Duration::from_millis(millis));
        blob.check(&Timings::new(&options).unwrap(), lock_delay)
    };
    for good in [15_000, 16_000, 60_000] {
        assert_eq!(check(good, Duration::ZERO), Ok(()));
    }
    for bad in [14_000, 15_500, 61_000] {
        let error = check(bad, Duration::ZERO).unwrap_err();
        assert_eq!(error, AzureBlobError::Duration(Duration::from_millis(bad)));
        assert!(
            error.to_string().contains("15 to 60 whole seconds"),
            "{error}"
        );
    }
    let delay = Duration::from_secs(1);
    assert_eq!(check(15_000, delay), Err(AzureBlobError::LockDelay(delay)));
}
