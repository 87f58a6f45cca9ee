//! The messages of etcd's API that Heddle sends and reads, with the fields that it uses: what else an answer
//! has is passed over, as protobuf prescribes for unknown fields.
//!
//! Numbers of fields are those of etcd's `api/etcdserverpb/rpc.proto` and `api/mvccpb/kv.proto`, which never
//! change their meaning. They stand here by hand so that nobody needs `protoc` to build Heddle.

use prost::{Enumeration, Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub struct Header {
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
    /// The store's revision when it answered.
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    /// How often the key was written since it was made.
    #[prost(int64, tag = "4")]
    pub version: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
    /// 0 for none.
    #[prost(int64, tag = "6")]
    pub lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The first key that is not read; empty for one key only.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// The member answers by what it knows itself, without asking the others.
    #[prost(bool, tag = "7")]
    pub serializable: bool,
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    /// 0 for none.
    #[prost(int64, tag = "3")]
    pub lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct PutResponse {}

#[derive(Clone, PartialEq, Message)]
pub struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeleteRangeResponse {}

#[derive(Clone, PartialEq, Message)]
pub struct RequestOp {
    #[prost(oneof = "Request", tags = "1, 2, 3")]
    pub request: Option<Request>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

#[derive(Clone, PartialEq, Message)]
pub struct ResponseOp {
    #[prost(oneof = "Response", tags = "1, 2, 3")]
    pub response: Option<Response>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Response {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeResponse),
}

/// A condition of a transaction: the key's target equals the union's value. Its `result` is 0, which is
/// «equal».
#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    #[prost(enumeration = "CompareTarget", tag = "2")]
    pub target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(oneof = "TargetUnion", tags = "4, 6")]
    pub target_union: Option<TargetUnion>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum CompareTarget {
    Version = 0,
    ModRevision = 2,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub enum TargetUnion {
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(int64, tag = "6")]
    ModRevision(i64),
}

#[derive(Clone, PartialEq, Message)]
pub struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    /// Carried out where all conditions hold.
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    /// Carried out else.
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub struct WatchRequest {
    #[prost(oneof = "WatchWish", tags = "1, 3")]
    pub wish: Option<WatchWish>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum WatchWish {
    #[prost(message, tag = "1")]
    Create(WatchCreateRequest),
    /// The member is to say how far it is.
    #[prost(message, tag = "3")]
    Progress(WatchProgressRequest),
}

#[derive(Clone, PartialEq, Message)]
pub struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// The first that is told.
    #[prost(int64, tag = "3")]
    pub start_revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct WatchProgressRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    /// Not 0 where the watch was to begin before this revision, up to which history is gone.
    #[prost(int64, tag = "5")]
    pub compact_revision: i64,
    #[prost(string, tag = "6")]
    pub cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Event {
    #[prost(enumeration = "EventType", tag = "1")]
    pub r#type: i32,
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum EventType {
    Put = 0,
    Delete = 1,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantRequest {
    /// Seconds.
    #[prost(int64, tag = "1")]
    pub ttl: i64,
}

/// The answer to a grant, a renewal and a question alike; a `ttl` of 0 or less is a lease that is gone.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseResponse {
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// Seconds.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

/// The request to end, to renew and to look at a lease alike.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseRequest {
    #[prost(int64, tag = "1")]
    pub id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseRevokeResponse {}

#[derive(Clone, PartialEq, Message)]
pub struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub password: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub token: String,
}

impl RangeRequest {
    /// Reads one key.
    pub fn key(key: impl Into<Vec<u8>>) -> RangeRequest {
        RangeRequest {
            key: key.into(),
            ..RangeRequest::default()
        }
    }

    /// Reads all keys that begin with this.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> RangeRequest {
        let key = prefix.into();
        RangeRequest {
            range_end: prefix_end(&key),
            key,
            ..RangeRequest::default()
        }
    }
}

/// The first key behind all that begin with this.
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // As etcd has it: all keys.
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_its_last_byte_is_one_more() {
        assert_eq!(prefix_end(b"/farm/"), b"/farm0");
        assert_eq!(prefix_end(b"a\xff\xff"), b"b");
        assert_eq!(prefix_end(b"\xff"), b"\0");
        assert_eq!(prefix_end(b""), b"\0");
    }

    #[test]
    fn fields_have_the_numbers_of_the_protocol() {
        let put = RequestOp {
            request: Some(Request::Put(PutRequest {
                key: b"k".to_vec(),
                value: b"v".to_vec(),
                lease: 5,
            })),
        };
        assert_eq!(put.encode_to_vec(), b"\x12\x08\x0a\x01k\x12\x01v\x18\x05");
        let compare = Compare {
            target: CompareTarget::ModRevision.into(),
            key: b"k".to_vec(),
            target_union: Some(TargetUnion::ModRevision(0)),
        };
        // A condition on 0 is written out, though 0 is what a field has that is left out.
        assert_eq!(compare.encode_to_vec(), b"\x10\x02\x1a\x01k\x30\x00");
        // What Heddle does not use is passed over.
        let header = Header::decode(&b"\x08\x07\x10\x09\x18\x2a\x20\x03"[..]).expect("a header");
        assert_eq!((header.cluster_id, header.revision), (7, 42));
    }
}
