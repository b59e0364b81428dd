// SPDX-License-Identifier: Apache-2.0
#include "cm/messages.h"

#include <algorithm>
#include <cstring>

#include "base/endian.h"

namespace verbena::cm {
namespace {

template <size_t N>
void take(std::array<uint8_t, N>& to, const uint8_t* p) {
  std::memcpy(to.data(), p, N);
}
template <size_t N>
void put(uint8_t* p, const std::array<uint8_t, N>& from) {
  std::memcpy(p, from.data(), N);
}
wire::Gid take_gid(const uint8_t* p) {
  wire::Gid gid;
  take(gid.bytes, p);
  return gid;
}
// `bits` bits of `value`, at `shift` of a byte.
uint8_t field(uint32_t value, unsigned bits, unsigned shift) {
  return static_cast<uint8_t>((value & ((1u << bits) - 1)) << shift);
}
uint8_t flag(bool set, unsigned shift) { return field(set ? 1 : 0, 1, shift); }

}  // namespace

PathFields PathFields::read(const uint8_t* p) {
  PathFields f;
  f.local_lid = load_be16(p);
  f.remote_lid = load_be16(p + 2);
  f.local = take_gid(p + 4);
  f.remote = take_gid(p + 20);
  const uint32_t word = load_be32(p + 36);
  f.flow_label = word >> 12;
  f.packet_rate = word & 0x3f;
  f.traffic_class = p[40];
  f.hop_limit = p[41];
  f.service_level = p[42] >> 4;
  f.subnet_local = ((p[42] >> 3) & 1) != 0;
  f.local_ack_timeout = p[43] >> 3;
  return f;
}

void PathFields::write(uint8_t* p) const {
  store_be16(p, local_lid);
  store_be16(p + 2, remote_lid);
  put(p + 4, local.bytes);
  put(p + 20, remote.bytes);
  store_be32(p + 36, (flow_label << 12) | (packet_rate & 0x3fu));
  p[40] = traffic_class;
  p[41] = hop_limit;
  p[42] = field(service_level, 4, 4) | flag(subnet_local, 3);
  p[43] = field(local_ack_timeout, 5, 3);
}

Req Req::read(const uint8_t* p) {
  Req m;
  m.local_id = load_be32(p);
  m.vendor_id = load_be24(p + 5);
  m.service_id = load_be64(p + 8);
  m.ca_guid = load_be64(p + 16);
  m.qkey = load_be32(p + 28);
  m.qpn = Qpn(load_be24(p + 32));
  m.responder_resources = p[35];
  m.local_eecn = load_be24(p + 36);
  m.initiator_depth = p[39];
  m.remote_eecn = load_be24(p + 40);
  m.remote_response_timeout = p[43] >> 3;
  m.transport_service = (p[43] >> 1) & 3;
  m.flow_control = (p[43] & 1) != 0;
  m.psn = wire::Psn(load_be24(p + 44));
  m.local_response_timeout = p[47] >> 3;
  m.retry_count = p[47] & 7;
  m.pkey = load_be16(p + 48);
  m.mtu = p[50] >> 4;
  m.rdc_exists = ((p[50] >> 3) & 1) != 0;
  m.rnr_retry_count = p[50] & 7;
  m.max_cm_retries = p[51] >> 4;
  m.srq = ((p[51] >> 3) & 1) != 0;
  m.extended_transport = p[51] & 7;
  m.path = PathFields::read(p + 52);
  m.alternate = PathFields::read(p + 96);
  take(m.private_data, p + 140);
  return m;
}

void Req::write(uint8_t* p) const {
  store_be32(p, local_id);
  store_be32(p + 4, vendor_id & 0xffffff);
  store_be64(p + 8, service_id);
  store_be64(p + 16, ca_guid);
  store_be32(p + 24, 0);
  store_be32(p + 28, qkey);
  store_be24(p + 32, qpn.value);
  p[35] = responder_resources;
  store_be24(p + 36, local_eecn);
  p[39] = initiator_depth;
  store_be24(p + 40, remote_eecn);
  p[43] =
      field(remote_response_timeout, 5, 3) | field(transport_service, 2, 1) | flag(flow_control, 0);
  store_be24(p + 44, psn.value());
  p[47] = field(local_response_timeout, 5, 3) | field(retry_count, 3, 0);
  store_be16(p + 48, pkey);
  p[50] = field(mtu, 4, 4) | flag(rdc_exists, 3) | field(rnr_retry_count, 3, 0);
  p[51] = field(max_cm_retries, 4, 4) | flag(srq, 3) | field(extended_transport, 3, 0);
  path.write(p + 52);
  alternate.write(p + 96);
  put(p + 140, private_data);
}

Rep Rep::read(const uint8_t* p) {
  Rep m;
  m.local_id = load_be32(p);
  m.remote_id = load_be32(p + 4);
  m.qkey = load_be32(p + 8);
  m.qpn = Qpn(load_be24(p + 12));
  m.eecn = load_be24(p + 16);
  m.vendor_id = (uint32_t{p[15]} << 16) | (uint32_t{p[19]} << 8) | p[23];
  m.psn = wire::Psn(load_be24(p + 20));
  m.responder_resources = p[24];
  m.initiator_depth = p[25];
  m.target_ack_delay = p[26] >> 3;
  m.failover = (p[26] >> 1) & 3;
  m.flow_control = (p[26] & 1) != 0;
  m.rnr_retry_count = p[27] >> 5;
  m.srq = ((p[27] >> 4) & 1) != 0;
  m.ca_guid = load_be64(p + 28);
  take(m.private_data, p + 36);
  return m;
}

void Rep::write(uint8_t* p) const {
  store_be32(p, local_id);
  store_be32(p + 4, remote_id);
  store_be32(p + 8, qkey);
  store_be24(p + 12, qpn.value);
  p[15] = field(vendor_id >> 16, 8, 0);
  store_be24(p + 16, eecn);
  p[19] = field(vendor_id >> 8, 8, 0);
  store_be24(p + 20, psn.value());
  p[23] = field(vendor_id, 8, 0);
  p[24] = responder_resources;
  p[25] = initiator_depth;
  p[26] = field(target_ack_delay, 5, 3) | field(failover, 2, 1) | flag(flow_control, 0);
  p[27] = field(rnr_retry_count, 3, 5) | flag(srq, 4);
  store_be64(p + 28, ca_guid);
  put(p + 36, private_data);
}

void IdsAndData::read_from(const uint8_t* p) {
  local_id = load_be32(p);
  remote_id = load_be32(p + 4);
  take(private_data, p + 8);
}

void IdsAndData::write(uint8_t* p) const {
  store_be32(p, local_id);
  store_be32(p + 4, remote_id);
  put(p + 8, private_data);
}

Rtu Rtu::read(const uint8_t* p) {
  Rtu m;
  m.read_from(p);
  return m;
}

Drep Drep::read(const uint8_t* p) {
  Drep m;
  m.read_from(p);
  return m;
}

Rej Rej::read(const uint8_t* p) {
  Rej m;
  m.local_id = load_be32(p);
  m.remote_id = load_be32(p + 4);
  m.about = static_cast<About>(p[8] >> 6);
  m.info_bytes = p[9] >> 1;
  m.reason = static_cast<RejectReason>(load_be16(p + 10));
  take(m.info, p + 12);
  take(m.private_data, p + 84);
  return m;
}

void Rej::write(uint8_t* p) const {
  store_be32(p, local_id);
  store_be32(p + 4, remote_id);
  p[8] = field(static_cast<uint8_t>(about), 2, 6);
  p[9] = field(info_bytes, 7, 1);
  store_be16(p + 10, static_cast<uint16_t>(reason));
  put(p + 12, info);
  put(p + 84, private_data);
}

Mra Mra::read(const uint8_t* p) {
  Mra m;
  m.local_id = load_be32(p);
  m.remote_id = load_be32(p + 4);
  m.about = static_cast<About>(p[8] >> 6);
  m.service_timeout = p[9] >> 3;
  take(m.private_data, p + 10);
  return m;
}

void Mra::write(uint8_t* p) const {
  store_be32(p, local_id);
  store_be32(p + 4, remote_id);
  p[8] = field(static_cast<uint8_t>(about), 2, 6);
  p[9] = field(service_timeout, 5, 3);
  put(p + 10, private_data);
}

Dreq Dreq::read(const uint8_t* p) {
  Dreq m;
  m.local_id = load_be32(p);
  m.remote_id = load_be32(p + 4);
  m.remote_qpn = Qpn(load_be24(p + 8));
  take(m.private_data, p + 12);
  return m;
}

void Dreq::write(uint8_t* p) const {
  store_be32(p, local_id);
  store_be32(p + 4, remote_id);
  store_be24(p + 8, remote_qpn.value);
  p[11] = 0;
  put(p + 12, private_data);
}

SidrReq SidrReq::read(const uint8_t* p) {
  SidrReq m;
  m.request_id = load_be32(p);
  m.pkey = load_be16(p + 4);
  m.service_id = load_be64(p + 8);
  take(m.private_data, p + 16);
  return m;
}

void SidrReq::write(uint8_t* p) const {
  store_be32(p, request_id);
  store_be16(p + 4, pkey);
  store_be16(p + 6, 0);
  store_be64(p + 8, service_id);
  put(p + 16, private_data);
}

SidrRep SidrRep::read(const uint8_t* p) {
  SidrRep m;
  m.request_id = load_be32(p);
  m.status = static_cast<SidrStatus>(p[4]);
  m.info_bytes = p[5];
  m.vendor_id = (uint32_t{load_be16(p + 6)} << 8) | p[11];
  m.qpn = Qpn(load_be24(p + 8));
  m.service_id = load_be64(p + 12);
  m.qkey = load_be32(p + 20);
  take(m.info, p + 24);
  take(m.private_data, p + 96);
  return m;
}

void SidrRep::write(uint8_t* p) const {
  store_be32(p, request_id);
  p[4] = static_cast<uint8_t>(status);
  p[5] = info_bytes;
  store_be16(p + 6, static_cast<uint16_t>(vendor_id >> 8));
  store_be24(p + 8, qpn.value);
  p[11] = static_cast<uint8_t>(vendor_id);
  store_be64(p + 12, service_id);
  store_be32(p + 20, qkey);
  put(p + 24, info);
  put(p + 96, private_data);
}

}  // namespace verbena::cm
