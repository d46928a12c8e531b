"""Files that need no reference: those of every Protobuf compiler, and those that Confluent's serializers know.

Confluent's list is `ProtobufSchema.KNOWN_DEPENDENCIES`; its files that describe schemas are in `schema_types`. Names,
numbers and kinds of the fields are those of Google's and Confluent's files.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from kafkasource.formats.protobuf.descriptors import PROTO2, PROTO3, File
from kafkasource.formats.protobuf.parse import parse_proto
from kafkasource.formats.protobuf.schema_types import SCHEMA_TYPES

_OF_PROTO2 = "google/protobuf/descriptor.proto"

COMMON: Mapping[str, str] = {
    **SCHEMA_TYPES,
    "google/protobuf/any.proto": "message Any { string type_url = 1; bytes value = 2; }",
    "google/protobuf/duration.proto": "message Duration { int64 seconds = 1; int32 nanos = 2; }",
    "google/protobuf/empty.proto": "message Empty {}",
    "google/protobuf/field_mask.proto": "message FieldMask { repeated string paths = 1; }",
    "google/protobuf/struct.proto": (
        "message Struct { map<string, Value> fields = 1; } message ListValue { repeated Value values = 1; }"
        "message Value { oneof kind { NullValue null_value = 1; double number_value = 2; string string_value = 3;"
        " bool bool_value = 4; Struct struct_value = 5; ListValue list_value = 6; } }"
        "enum NullValue { NULL_VALUE = 0; }"
    ),
    "google/protobuf/timestamp.proto": "message Timestamp { int64 seconds = 1; int32 nanos = 2; }",
    "google/protobuf/wrappers.proto": (
        "message DoubleValue { double value = 1; } message FloatValue { float value = 1; }"
        "message Int64Value { int64 value = 1; } message UInt64Value { uint64 value = 1; }"
        "message Int32Value { int32 value = 1; } message UInt32Value { uint32 value = 1; }"
        "message BoolValue { bool value = 1; } message StringValue { string value = 1; }"
        "message BytesValue { bytes value = 1; }"
    ),
    "confluent/type/decimal.proto": "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
    "confluent/type/variant.proto": "message Variant { bytes metadata = 1; bytes value = 2; }",
    "confluent/types/decimal.proto": 'import public "confluent/type/decimal.proto";',
    "google/type/calendar_period.proto": (
        "enum CalendarPeriod { CALENDAR_PERIOD_UNSPECIFIED = 0; DAY = 1; WEEK = 2; FORTNIGHT = 3; MONTH = 4;"
        " QUARTER = 5; HALF = 6; YEAR = 7; }"
    ),
    "google/type/color.proto": (
        'import "google/protobuf/wrappers.proto";'
        "message Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }"
    ),
    "google/type/date.proto": "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "google/type/datetime.proto": (
        'import "google/protobuf/duration.proto";'
        "message DateTime { int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5;"
        " int32 seconds = 6; int32 nanos = 7;"
        " oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; } }"
        "message TimeZone { string id = 1; string version = 2; }"
    ),
    "google/type/dayofweek.proto": (
        "enum DayOfWeek { DAY_OF_WEEK_UNSPECIFIED = 0; MONDAY = 1; TUESDAY = 2; WEDNESDAY = 3; THURSDAY = 4;"
        " FRIDAY = 5; SATURDAY = 6; SUNDAY = 7; }"
    ),
    "google/type/decimal.proto": "message Decimal { string value = 1; }",
    "google/type/expr.proto": (
        "message Expr { string expression = 1; string title = 2; string description = 3; string location = 4; }"
    ),
    "google/type/fraction.proto": "message Fraction { int64 numerator = 1; int64 denominator = 2; }",
    "google/type/interval.proto": (
        'import "google/protobuf/timestamp.proto";'
        "message Interval { google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }"
    ),
    "google/type/latlng.proto": "message LatLng { double latitude = 1; double longitude = 2; }",
    "google/type/localized_text.proto": "message LocalizedText { string text = 1; string language_code = 2; }",
    "google/type/money.proto": "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }",
    "google/type/month.proto": (
        "enum Month { MONTH_UNSPECIFIED = 0; JANUARY = 1; FEBRUARY = 2; MARCH = 3; APRIL = 4; MAY = 5; JUNE = 6;"
        " JULY = 7; AUGUST = 8; SEPTEMBER = 9; OCTOBER = 10; NOVEMBER = 11; DECEMBER = 12; }"
    ),
    "google/type/phone_number.proto": (
        "message PhoneNumber { message ShortCode { string region_code = 1; string number = 2; }"
        " oneof kind { string e164_number = 1; ShortCode short_code = 2; } string extension = 3; }"
    ),
    "google/type/postal_address.proto": (
        "message PostalAddress { int32 revision = 1; string region_code = 2; string language_code = 3;"
        " string postal_code = 4; string sorting_code = 5; string administrative_area = 6; string locality = 7;"
        " string sublocality = 8; repeated string address_lines = 9; repeated string recipients = 10;"
        " string organization = 11; }"
    ),
    "google/type/quaternion.proto": "message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }",
    "google/type/timeofday.proto": (
        "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }"
    ),
}


@cache
def common_file(path: str) -> File | None:
    """None: it is not one of these."""
    text = COMMON.get(path)
    package = path.rpartition("/")[0].replace("/", ".")
    syntax = PROTO2 if path == _OF_PROTO2 else PROTO3
    return None if text is None else parse_proto(f'syntax = "{syntax}"; package {package}; {text}')
