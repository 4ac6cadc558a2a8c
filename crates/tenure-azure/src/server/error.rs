//! The errors of the Blob service: an HTTP status, a code, and XML.
//!
//! Codes and messages are those of "Blob service error codes" and "Common REST API error codes" of
//! the Azure Storage REST API. SDKs decide by the code, which is also in a header.

use axum::http::StatusCode;
use tenure_core::lease::{Operation, Rejection};
use tenure_core::wire::{self, Problem};

use super::access::AccessRefusal;
use super::target::Level;

/// An error code of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AzureErrorCode {
    pub(super) status: StatusCode,
    pub(super) text: &'static str,
    pub(super) message: &'static str,
}

/// The reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Error {
    pub(super) code: AzureErrorCode,
    /// The details of this request, as XML elements with their texts.
    pub(super) details: Vec<(&'static str, String)>,
    /// The size of the blob, for a range outside of it.
    pub(super) size: Option<u64>,
}

pub(super) type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! codes {
    ($($name:ident $status:ident $text:literal $message:literal)*) => {
        $(pub(super) const $name: AzureErrorCode = AzureErrorCode {
            status: StatusCode::$status,
            text: $text,
            message: $message,
        };)*
    };
}

codes! {
    AUTHENTICATION_FAILED FORBIDDEN "AuthenticationFailed"
        "Server failed to authenticate the request. Make sure the value of the Authorization header is formed correctly including the signature."
    AUTHORIZATION_FAILURE FORBIDDEN "AuthorizationFailure"
        "This request is not authorized to perform this operation."
    AUTHORIZATION_PERMISSION_MISMATCH FORBIDDEN "AuthorizationPermissionMismatch"
        "This request is not authorized to perform this operation using this permission."
    AUTHORIZATION_PROTOCOL_MISMATCH FORBIDDEN "AuthorizationProtocolMismatch"
        "This request is not authorized to perform this operation using this protocol."
    AUTHORIZATION_RESOURCE_TYPE_MISMATCH FORBIDDEN "AuthorizationResourceTypeMismatch"
        "This request is not authorized to perform this operation using this resource type."
    AUTHORIZATION_SERVICE_MISMATCH FORBIDDEN "AuthorizationServiceMismatch"
        "This request is not authorized to perform this operation using this service."
    AUTHORIZATION_SOURCE_IP_MISMATCH FORBIDDEN "AuthorizationSourceIPMismatch"
        "This request is not authorized to perform this operation using this source IP."
    NO_AUTHENTICATION_INFORMATION UNAUTHORIZED "NoAuthenticationInformation"
        "Server failed to authenticate the request. Please refer to the information in the www-authenticate header."
    BLOB_ALREADY_EXISTS CONFLICT "BlobAlreadyExists" "The specified blob already exists."
    BLOCK_COUNT_EXCEEDS_LIMIT CONFLICT "BlockCountExceedsLimit"
        "The uncommitted block count cannot exceed the maximum limit of 50,000 blocks."
    BLOCK_LIST_TOO_LONG BAD_REQUEST "BlockListTooLong"
        "The block list may not contain more than 50,000 blocks."
    BLOB_NOT_FOUND NOT_FOUND "BlobNotFound" "The specified blob does not exist."
    CONDITION_NOT_MET PRECONDITION_FAILED "ConditionNotMet"
        "The condition specified using HTTP conditional header(s) is not met."
    NOT_MODIFIED NOT_MODIFIED "ConditionNotMet"
        "The condition specified using HTTP conditional header(s) is not met."
    CONTAINER_ALREADY_EXISTS CONFLICT "ContainerAlreadyExists" "The specified container already exists."
    CONTAINER_NOT_FOUND NOT_FOUND "ContainerNotFound" "The specified container does not exist."
    INTERNAL_ERROR INTERNAL_SERVER_ERROR "InternalError"
        "The server encountered an internal error. Please retry the request."
    EXCEEDS_MAX_BATCH_REQUEST_COUNT BAD_REQUEST "ExceedsMaxBatchRequestCount"
        "The batch operation exceeds maximum number of allowed subrequests."
    INVALID_BLOB_TYPE CONFLICT "InvalidBlobType" "The blob type is invalid for this operation."
    INVALID_BLOCK_LIST BAD_REQUEST "InvalidBlockList" "The specified block list is invalid."
    INVALID_HEADER_VALUE BAD_REQUEST "InvalidHeaderValue"
        "The value for one of the HTTP headers is not in the correct format."
    INVALID_INPUT BAD_REQUEST "InvalidInput" "One of the request inputs is not valid."
    INVALID_METADATA BAD_REQUEST "InvalidMetadata"
        "The specified metadata is invalid. It includes characters that are not permitted."
    INVALID_QUERY_PARAMETER_VALUE BAD_REQUEST "InvalidQueryParameterValue"
        "Value for one of the query parameters specified in the request URI is invalid."
    INVALID_XML_DOCUMENT BAD_REQUEST "InvalidXmlDocument"
        "The specified XML is not syntactically valid."
    INVALID_RANGE RANGE_NOT_SATISFIABLE "InvalidRange"
        "The range specified is invalid for the current size of the resource."
    INVALID_RESOURCE_NAME BAD_REQUEST "InvalidResourceName"
        "The specified resource name contains invalid characters."
    INVALID_URI BAD_REQUEST "InvalidUri" "The requested URI does not represent any resource on the server."
    INVALID_MD5 BAD_REQUEST "InvalidMd5"
        "The MD5 value specified in the request is invalid. The MD5 value must be 128 bits and Base64-encoded."
    MD5_MISMATCH BAD_REQUEST "Md5Mismatch"
        "The MD5 value specified in the request did not match the MD5 value calculated by the server."
    METADATA_TOO_LARGE BAD_REQUEST "MetadataTooLarge"
        "The size of the specified metadata exceeds the maximum size permitted."
    MISSING_CONTENT_LENGTH_HEADER LENGTH_REQUIRED "MissingContentLengthHeader"
        "The Content-Length header was not specified."
    MISSING_REQUIRED_QUERY_PARAMETER BAD_REQUEST "MissingRequiredQueryParameter"
        "A required query parameter was not specified for this request."
    MISSING_REQUIRED_HEADER BAD_REQUEST "MissingRequiredHeader"
        "An HTTP header that's mandatory for this request is not specified."
    OPERATION_TIMED_OUT INTERNAL_SERVER_ERROR "OperationTimedOut"
        "The operation could not be completed within the permitted time."
    BODY_TIMED_OUT REQUEST_TIMEOUT "OperationTimedOut"
        "The body of the request did not arrive within the permitted time."
    OUT_OF_RANGE_INPUT BAD_REQUEST "OutOfRangeInput" "One of the request inputs is out of range."
    OUT_OF_RANGE_QUERY_PARAMETER_VALUE BAD_REQUEST "OutOfRangeQueryParameterValue"
        "One of the query parameters specified in the request URI is outside the permissible range."
    PUBLIC_ACCESS_NOT_PERMITTED CONFLICT "PublicAccessNotPermitted"
        "Public access is not permitted on this storage account."
    REQUEST_BODY_TOO_LARGE PAYLOAD_TOO_LARGE "RequestBodyTooLarge"
        "The size of the request body exceeds the maximum size permitted."
    SERVER_BUSY SERVICE_UNAVAILABLE "ServerBusy"
        "The server is currently unable to receive requests. Please retry your request."
    UNSUPPORTED_HEADER BAD_REQUEST "UnsupportedHeader"
        "One of the HTTP headers specified in the request is not supported."
    UNSUPPORTED_HTTP_VERB METHOD_NOT_ALLOWED "UnsupportedHttpVerb"
        "The resource doesn't support the specified HTTP verb."
    LEASE_ALREADY_PRESENT CONFLICT "LeaseAlreadyPresent" "There is already a lease present."
    LEASE_ID_MISMATCH_WITH_LEASE_OPERATION CONFLICT "LeaseIdMismatchWithLeaseOperation"
        "The lease ID specified did not match the lease ID for the blob/container."
    LEASE_NOT_PRESENT_WITH_LEASE_OPERATION CONFLICT "LeaseNotPresentWithLeaseOperation"
        "There is currently no lease on the blob/container."
    LEASE_IS_BREAKING_AND_CANNOT_BE_ACQUIRED CONFLICT "LeaseIsBreakingAndCannotBeAcquired"
        "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken."
    LEASE_IS_BREAKING_AND_CANNOT_BE_CHANGED CONFLICT "LeaseIsBreakingAndCannotBeChanged"
        "The lease ID matched, but the lease is currently in breaking state and cannot be changed."
    LEASE_IS_BROKEN_AND_CANNOT_BE_RENEWED CONFLICT "LeaseIsBrokenAndCannotBeRenewed"
        "The lease ID matched, but the lease has been broken explicitly and cannot be renewed."
    LEASE_ID_MISSING PRECONDITION_FAILED "LeaseIdMissing"
        "There is currently a lease on the blob/container and no lease ID was specified in the request."
    LEASE_ID_MISMATCH_WITH_BLOB_OPERATION PRECONDITION_FAILED "LeaseIdMismatchWithBlobOperation"
        "The lease ID specified did not match the lease ID for the blob/container."
    LEASE_ID_MISMATCH_WITH_CONTAINER_OPERATION PRECONDITION_FAILED "LeaseIdMismatchWithContainerOperation"
        "The lease ID specified did not match the lease ID for the blob/container."
    LEASE_NOT_PRESENT_WITH_BLOB_OPERATION PRECONDITION_FAILED "LeaseNotPresentWithBlobOperation"
        "There is currently no lease on the blob/container."
    LEASE_NOT_PRESENT_WITH_CONTAINER_OPERATION PRECONDITION_FAILED "LeaseNotPresentWithContainerOperation"
        "There is currently no lease on the blob/container."
    LEASE_LOST PRECONDITION_FAILED "LeaseLost"
        "A lease ID was specified, but the lease for the blob/container has expired."
}

impl From<AzureErrorCode> for Error {
    fn from(code: AzureErrorCode) -> Self {
        Self {
            code,
            details: Vec::new(),
            size: None,
        }
    }
}

impl AzureErrorCode {
    /// Returns the error with a detail about this request.
    pub(super) fn because(self, detail: impl Into<String>) -> Error {
        let element = match self {
            AUTHENTICATION_FAILED => "AuthenticationErrorDetail",
            _ => "Detail",
        };
        Error {
            details: vec![(element, detail.into())],
            ..self.into()
        }
    }

    /// Returns the error with the invalid parameter of the query.
    pub(super) fn of_parameter(self, name: &str, value: &str, reason: impl Into<String>) -> Error {
        Error {
            details: vec![
                ("QueryParameterName", name.into()),
                ("QueryParameterValue", format!("{value:.100}")),
                ("Reason", reason.into()),
            ],
            ..self.into()
        }
    }

    /// Returns the error for a range that starts after the end of a blob of this size.
    pub(super) fn of_size(self, size: u64) -> Error {
        Error {
            size: Some(size),
            ..self.into()
        }
    }
}

impl Error {
    /// Converts the refusal of an operation on a lease.
    pub(super) fn of_rejection(operation: &Operation, rejection: &Rejection) -> Self {
        let code = match (operation, rejection) {
            (Operation::Acquire(..), Rejection::Breaking { .. }) => {
                LEASE_IS_BREAKING_AND_CANNOT_BE_ACQUIRED
            }
            // This also applies to a lease in its lock delay, and to a lease that is reserved by a
            // client of the native API.
            (Operation::Acquire(..), _) => LEASE_ALREADY_PRESENT,
            (Operation::Change { .. }, Rejection::Breaking { .. }) => {
                LEASE_IS_BREAKING_AND_CANNOT_BE_CHANGED
            }
            (_, Rejection::Broken { .. }) => LEASE_IS_BROKEN_AND_CANNOT_BE_RENEWED,
            (_, Rejection::IdMismatch) => LEASE_ID_MISMATCH_WITH_LEASE_OPERATION,
            (_, _) => LEASE_NOT_PRESENT_WITH_LEASE_OPERATION,
        };
        code.into()
    }

    /// Converts the refusal of an access to a blob or a container.
    pub(super) fn of_access(level: Level, refusal: AccessRefusal) -> Self {
        let code = match (refusal, level) {
            (AccessRefusal::IdMissing, _) => LEASE_ID_MISSING,
            (AccessRefusal::Lost, _) => LEASE_LOST,
            (AccessRefusal::IdMismatch, Level::Blob) => LEASE_ID_MISMATCH_WITH_BLOB_OPERATION,
            (AccessRefusal::IdMismatch, _) => LEASE_ID_MISMATCH_WITH_CONTAINER_OPERATION,
            (_, Level::Blob) => LEASE_NOT_PRESENT_WITH_BLOB_OPERATION,
            (_, _) => LEASE_NOT_PRESENT_WITH_CONTAINER_OPERATION,
        };
        code.into()
    }
}

impl From<Problem> for Error {
    /// Converts a refusal of the store itself. SDKs repeat a request after a status of 500 or more.
    fn from(problem: Problem) -> Self {
        let code = match problem.code {
            // The service does not use the status 431 of the native API.
            wire::Code::TooLarge => OUT_OF_RANGE_INPUT,
            wire::Code::Malformed => INVALID_HEADER_VALUE,
            wire::Code::CrossOrigin => AUTHORIZATION_FAILURE,
            wire::Code::Unauthenticated => AUTHENTICATION_FAILED,
            wire::Code::InvalidName => INVALID_RESOURCE_NAME,
            wire::Code::RequestTimeout => OPERATION_TIMED_OUT,
            wire::Code::Stopping
            | wire::Code::HomeUnavailable
            | wire::Code::DiskFull
            | wire::Code::OverLimit => SERVER_BUSY,
            _ => INTERNAL_ERROR,
        };
        code.because(problem.detail)
    }
}
