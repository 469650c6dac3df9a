//! Tests of the codec without a cache.

use super::*;

fn decoded(codec: &HostCodec, stored: &[u8]) -> Result<HostValue<u8>, CodecError> {
    Codec::<HostValue<u8>>::decode_owned(codec, codec.number(), [b"head", stored].concat(), 4)
}

#[test]
fn bytes_are_moved_and_keep_their_allocation() {
    let codec = HostCodec::message_pack();
    let mut out = Vec::from("before");
    let value: HostValue<u8> = codec.value(b"k", b"\xa1x".to_vec());
    codec.encode(&value, &mut out).expect("its own codec");
    assert_eq!(out, b"before\xa1x");
    let address = out[6..].as_ptr();
    let read: HostValue<u8> = codec.decode_owned(MESSAGE_PACK, out, 6).expect("valid");
    assert_eq!(read.payload(b"k"), Some(&b"\xa1x"[..]));
    assert_eq!(read.stored().as_ptr(), address, "nothing was copied");
}

#[test]
fn value_of_another_codec_is_not_encoded() {
    let other: HostValue<u8> = HostValue::new(200, Bytes::from_static(b"\xa1x"), false);
    let refused = HostCodec::message_pack().encode(&other, &mut Vec::new());
    assert_eq!(refused.unwrap_err().to_string(), "a value of codec 200 in a view of codec 3");
}

#[test]
fn first_object_is_kept_with_the_bytes() {
    let value = decoded(&HostCodec::message_pack(), b"\x05").expect("valid");
    assert_eq!((value.object(), value.keep(5), value.keep(6), value.object()), (None, &5, &5, Some(&5)));
}

#[test]
fn bytes_outside_of_the_profile_are_not_decoded() {
    let refused = decoded(&HostCodec::message_pack(), b"\x91\xc1").expect_err("0xc1 begins no value");
    assert_eq!(refused.to_string(), "at $[0]: the byte 0xc1 begins no value");
}

#[test]
fn unsigned_bytes_are_not_decoded() {
    let view = SignedView { namespace: "n", view: "v", schema: "" };
    let codec = |key: u8| {
        let signer = Signer::new([[key; 32]]).expect("long enough");
        HostCodec::private(PrivateFormat::Pickle, &signer, view)
    };
    let value: HostValue<u8> = codec(1).value(b"k", b"pickled".to_vec());
    let read = decoded(&codec(1), value.stored()).expect("signed");
    assert_eq!((read.codec(), read.payload(b"k"), read.payload(b"l")), (16, Some(&b"pickled"[..]), None));
    for refused in
        [decoded(&codec(2), value.stored()), decoded(&codec(1), b"pickled"), decoded(&codec(1), b"")]
    {
        assert_eq!(refused.expect_err("not signed by this key").to_string(), "no key has signed the value");
    }
}
