// SPDX-License-Identifier: Apache-2.0
// tanh, erf, Gelu and its slope, expm1 below 0 and softplus. With AVX-512 they are polynomials of degree 4 on 32 pieces
// of their range, whose coefficients lie in registers and are picked by a permutation; elsewhere they are ratios and
// polynomials for the whole range.
#pragma once

#include "d5/backends/onednn/own/loops/exp_log.hpp"

namespace d5::onednn::own::D5_ISA {

#if defined(__AVX512DQ__)

// A piece of a >= 0 is told by the last two bits of the exponent of a + first and the first three of its mantissa: they
// begin at 0, are `first` / 8 to 1 / 16 of a + first wide and end where the second piece of a fifth octave does.
// Distances are taken from the middle of a piece, of the first one from 0, where functions that begin with 0 keep their
// digits.
struct Pieces {
  float first;
  alignas(64) float origin[32];
};
constexpr Pieces pieces_from(float first) {
  Pieces all{first, {}};
  const uint32_t begin = __builtin_bit_cast(uint32_t, first) >> 20;
  for (uint32_t k = 1; k < 32; ++k) {
    const float left = __builtin_bit_cast(float, (begin + k) << 20),
                right = __builtin_bit_cast(float, (begin + k + 1) << 20);
    all.origin[(begin + k) % 32] = 0.5f * (left + right) - first;
  }
  return all;
}
constexpr Pieces pieces_to_7 = pieces_from(0.5f), pieces_to_9 = pieces_from(0.625f), pieces_to_18 = pieces_from(1.25f);

// Row k holds the coefficients of t^k, weighted least squares with equal extremes of the error: relative and below
// 2^-24 (gelu_slope 2^-23), of softplus absolute where it is below 1/50. The last piece in use is the constant that the
// function has reached in f32.
// clang-format off
alignas(64) constexpr float tanh_pieces[][32] = {
    {0x1.cf6f98p-1f, 0x1.e1fbfap-1f, 0x1.ed9506p-1f, 0x1.f4bfd6p-1f, 0x1.f92582p-1f, 0x1.fbd50ap-1f, 0x1.fd77d2p-1f, 0x1.fe767ap-1f,
     0x1.ff45f6p-1f, 0x1.ffbb88p-1f, 0x1.ffe6cep-1f, 0x1.fff6bcp-1f, 0x1.fffc98p-1f, 0x1.fffebep-1f, 0x1.ffff8ap-1f, 0x1.ffffd4p-1f,
     0x1.fffff6p-1f, 0x1.fffffep-1f, 0, 0x1.7ee102p-4f, 0x1.3d6bc8p-3f, 0x1.b8fd04p-3f, 0x1.18a39ap-2f, 0x1.52c2c6p-2f,
     0x1.a5729ep-2f, 0x1.05087p-1f, 0x1.3157ep-1f, 0x1.5789p-1f, 0x1.77d838p-1f, 0x1.92bfb4p-1f, 0x1.a8dbccp-1f, 0x1.bad50ap-1f},
    {0x1.72166ep-3f, 0x1.d22c58p-4f, 0x1.21626p-4f, 0x1.640fe8p-5f, 0x1.b3aef8p-6f, 0x1.09a70ap-6f, 0x1.43498ap-7f, 0x1.88ee6cp-8f,
     0x1.73bf78p-9f, 0x1.11c304p-10f, 0x1.92fa62p-12f, 0x1.2887d6p-13f, 0x1.b45e9ap-15f, 0x1.41116ap-16f, 0x1.d875ccp-18f, 0x1.5b9e16p-19f,
     0x1.3578d8p-21f, 0x1.4f0f5ap-24f, 0x1p+0f, 0x1.fb86b6p-1f, 0x1.f3b35ep-1f, 0x1.e842cap-1f, 0x1.d98b36p-1f, 0x1.c7f724p-1f,
     0x1.a945bap-1f, 0x1.7aeaeep-1f, 0x1.49e6cap-1f, 0x1.197fd8p-1f, 0x1.d834e4p-2f, 0x1.86616ep-2f, 0x1.3ee738p-2f, 0x1.01fbacp-2f},
    {-0x1.4efc9ep-3f, -0x1.b6d8b6p-4f, -0x1.16f9cp-4f, -0x1.5c3d38p-5f, -0x1.adda42p-6f, -0x1.077d94p-6f, -0x1.41b068p-7f, -0x1.87c094p-8f,
     -0x1.733aa8p-9f, -0x1.119ffep-10f, -0x1.92e8d8p-12f, -0x1.288426p-13f, -0x1.b45e26p-15f, -0x1.41127p-16f, -0x1.d87808p-18f, -0x1.5b9feep-19f,
     -0x1.35958ap-21f, -0x1.4f2e78p-24f, 0x1.0fac84p-17f, -0x1.7b87dap-4f, -0x1.35cb8ep-3f, -0x1.a48a9p-3f, -0x1.038f68p-2f, -0x1.2daf94p-2f,
     -0x1.5e0edep-2f, -0x1.825dfap-2f, -0x1.897d4p-2f, -0x1.79c102p-2f, -0x1.5aa23ap-2f, -0x1.3314b8p-2f, -0x1.08a06ep-2f, -0x1.be434ap-3f},
    {0x1.677a6ap-4f, 0x1.020506p-4f, 0x1.59b864p-5f, 0x1.bd137p-6f, 0x1.17c972p-6f, 0x1.5acf98p-7f, 0x1.aa3ca2p-8f, 0x1.049466p-8f,
     0x1.f54284p-10f, 0x1.72328p-11f, 0x1.10c0d4p-12f, 0x1.9190dp-14f, 0x1.2782c8p-15f, 0x1.b2e122p-17f, 0x1.3ff97ap-18f, 0x1.d6da3ep-20f,
     0x1.b8408p-22f, 0x1.dca752p-25f, -0x1.55ff48p-2f, -0x1.4953f8p-2f, -0x1.34fe08p-2f, -0x1.181fd4p-2f, -0x1.e8f924p-3f, -0x1.984412p-3f,
     -0x1.16f126p-3f, -0x1.bec8c4p-5f, 0x1.cd90c8p-7f, 0x1.05ebeep-4f, 0x1.8324f4p-4f, 0x1.bceea4p-4f, 0x1.c4a3eep-4f, 0x1.abb1f6p-4f},
    {-0x1.95c436p-6f, -0x1.808184p-6f, -0x1.253d9ep-6f, -0x1.947ac6p-7f, -0x1.085f4cp-7f, -0x1.4f3a14p-8f, -0x1.a1937p-9f, -0x1.015872p-9f,
     -0x1.f1cb18p-11f, -0x1.71035ep-12f, -0x1.1040e2p-13f, -0x1.91081ap-15f, -0x1.272c28p-16f, -0x1.b26936p-18f, -0x1.3fa34ap-19f, -0x1.d65c7cp-21f,
     -0x1.b6741ep-23f, -0x1.dab4a2p-26f, 0x1.104edp-6f, 0x1.ed89cp-5f, 0x1.8c7208p-4f, 0x1.044162p-3f, 0x1.32a354p-3f, 0x1.4fe02cp-3f,
     0x1.5b5906p-3f, 0x1.3a087ep-3f, 0x1.e9b7a6p-4f, 0x1.47b42ep-4f, 0x1.63e65ep-5f, 0x1.dc33f8p-7f, -0x1.6a19eep-8f, -0x1.20ffd2p-6f},
};
alignas(64) constexpr float erf_pieces[][32] = {
    {0x1.f4f694p-1f, 0x1.fbe61ep-1f, 0x1.fea422p-1f, 0x1.ff996p-1f, 0x1.ffe514p-1f, 0x1.fff9bap-1f, 0x1.fffeb4p-1f, 0x1.ffffc4p-1f,
     0x1.fffffcp-1f, 0x1p+0f, 0x1p+0f, 0x1p+0f, 0x1p+0f, 0x1p+0f, 0x1p+0f, 0x1p+0f,
     0, 0x1.b00812p-4f, 0x1.662a0cp-3f, 0x1.f190aap-3f, 0x1.3c9aa8p-2f, 0x1.7e1594p-2f, 0x1.bccfecp-2f, 0x1.f86faap-2f,
     0x1.25b8a8p-1f, 0x1.569244p-1f, 0x1.7fb9cp-1f, 0x1.a1551ap-1f, 0x1.bbef1p-1f, 0x1.d0580cp-1f, 0x1.df85eap-1f, 0x1.ea773p-1f},
    {0x1.499d72p-4f, 0x1.12cce2p-5f, 0x1.945a56p-7f, 0x1.0686d8p-8f, 0x1.2cd2eep-10f, 0x1.30304p-12f, 0x1.0f6e62p-14f, 0x1.ab73dcp-17f,
     0x1.cc3e28p-21f, 0, 0, 0, 0, 0, 0, 0,
     0x1.20dd74p+0f, 0x1.1e565cp+0f, 0x1.19e5e8p+0f, 0x1.135e3p+0f, 0x1.0ae55p+0f, 0x1.00abcep+0f, 0x1.e9d5a8p-1f, 0x1.cfc41ep-1f,
     0x1.a5075p-1f, 0x1.681ff8p-1f, 0x1.2a8dd8p-1f, 0x1.dfca3ep-2f, 0x1.75a93p-2f, 0x1.1a0dd6p-2f, 0x1.9cb5d6p-3f, 0x1.24a7c6p-3f},
    {-0x1.0bd13ep-3f, -0x1.01a298p-4f, -0x1.ada6e2p-6f, -0x1.37c7a4p-7f, -0x1.8ae25p-9f, -0x1.b559aap-11f, -0x1.a8368cp-13f, -0x1.68c682p-15f,
     -0x1.b2e442p-19f, 0, 0, 0, 0, 0, 0, 0,
     0x1.ccd2a8p-18f, -0x1.ad80fp-4f, -0x1.605f38p-3f, -0x1.e1e4b8p-3f, -0x1.2c41fp-2f, -0x1.60ec36p-2f, -0x1.8dfd94p-2f, -0x1.b2c7d8p-2f,
     -0x1.d9a81ap-2f, -0x1.ef2be6p-2f, -0x1.e5267ap-2f, -0x1.c1cd96p-2f, -0x1.8d03c4p-2f, -0x1.4ef072p-2f, -0x1.0ed75cp-2f, -0x1.a4b14p-3f},
    {0x1.d63668p-4f, 0x1.152624p-4f, 0x1.10a2f8p-5f, 0x1.c7459p-7f, 0x1.45e96p-8f, 0x1.92b242p-10f, 0x1.af5b0ap-12f, 0x1.91df96p-14f,
     0x1.3e6824p-17f, 0, 0, 0, 0, 0, 0, 0,
     -0x1.81b75cp-2f, -0x1.76f02p-2f, -0x1.65632ap-2f, -0x1.4be9p-2f, -0x1.2b78fap-2f, -0x1.05481ap-2f, -0x1.b571d4p-3f, -0x1.5a932cp-3f,
     -0x1.9c792ap-4f, -0x1.aace84p-7f, 0x1.fb8fa2p-5f, 0x1.e36582p-4f, 0x1.38aae8p-3f, 0x1.55bc82p-3f, 0x1.50030cp-3f, 0x1.3162fp-3f},
    {-0x1.941ac4p-5f, -0x1.594ae6p-5f, -0x1.b0b832p-6f, -0x1.b1232p-7f, -0x1.66dbccp-8f, -0x1.f57c1ep-10f, -0x1.2ad8b6p-11f, -0x1.32056ap-13f,
     -0x1.0d4dc2p-16f, 0, 0, 0, 0, 0, 0, 0,
     0x1.cd717ap-7f, 0x1.a6087cp-5f, 0x1.592d76p-4f, 0x1.d17c8ap-4f, 0x1.1c06c8p-3f, 0x1.44cdaap-3f, 0x1.61f182p-3f, 0x1.72e208p-3f,
     0x1.7527fap-3f, 0x1.52d4fap-3f, 0x1.0f90ap-3f, 0x1.74be2ap-4f, 0x1.89ec28p-5f, 0x1.46510cp-7f, -0x1.3edc86p-6f, -0x1.3c799ep-5f},
};
alignas(64) constexpr float normal_pieces[][32] = {
    {0x1.caab34p-2f, 0x1.e0dfc6p-2f, 0x1.eecdbcp-2f, 0x1.f703d2p-2f, 0x1.fb9046p-2f, 0x1.fdee6ep-2f, 0x1.ff16f2p-2f, 0x1.ff9f4p-2f,
     0x1.ffe8d2p-2f, 0x1.fffd32p-2f, 0x1.ffffbcp-2f, 0x1.fffffap-2f, 0x1p-1f, 0x1p-1f, 0x1p-1f, 0x1p-1f,
     0, 0x1.31f08p-5f, 0x1.fc936cp-5f, 0x1.629f32p-4f, 0x1.c59802p-4f, 0x1.136bbep-3f, 0x1.4302fcp-3f, 0x1.7168e2p-3f,
     0x1.b47438p-3f, 0x1.043706p-2f, 0x1.2abfe2p-2f, 0x1.4d9138p-2f, 0x1.6c8a1ep-2f, 0x1.87aa16p-2f, 0x1.9f0d52p-2f, 0x1.b2e7b4p-2f},
    {0x1.b461e4p-4f, 0x1.19bfe6p-4f, 0x1.55c774p-5f, 0x1.857a86p-6f, 0x1.a0f18ep-7f, 0x1.a34d2ap-8f, 0x1.8c1f98p-9f, 0x1.5f8d48p-10f,
     0x1.714854p-12f, 0x1.8f60fcp-15f, 0x1.50327ep-18f, 0x1.b87f78p-22f, 0x1.c11338p-26f, 0, 0, 0,
     0x1.988454p-2f, 0x1.96b9cp-2f, 0x1.938f78p-2f, 0x1.8edbdap-2f, 0x1.88acd2p-2f, 0x1.81147ep-2f, 0x1.7828ep-2f, 0x1.6e037p-2f,
     0x1.5cbdcp-2f, 0x1.42886cp-2f, 0x1.25ab68p-2f, 0x1.073e62p-2f, 0x1.d09f9ep-3f, 0x1.93ac02p-3f, 0x1.594766p-3f, 0x1.22c106p-3f},
    {-0x1.628f94p-4f, -0x1.082404p-4f, -0x1.6b243ap-5f, -0x1.ce822ap-6f, -0x1.119f2ap-6f, -0x1.2d607cp-7f, -0x1.357a1ep-8f, -0x1.28a104p-9f,
     -0x1.5a651ep-11f, -0x1.a8b3e6p-14f, -0x1.8fbbfcp-17f, -0x1.21970cp-20f, -0x1.4390a4p-24f, 0, 0, 0,
     0x1.464df8p-21f, -0x1.310b1ap-6f, -0x1.f87336p-6f, -0x1.5d0054p-5f, -0x1.b9c264p-5f, -0x1.08be14p-4f, -0x1.31a134p-4f, -0x1.572336p-4f,
     -0x1.885562p-4f, -0x1.bb7b88p-4f, -0x1.dd3682p-4f, -0x1.ed94f4p-4f, -0x1.eda996p-4f, -0x1.df5c42p-4f, -0x1.c52db6p-4f, -0x1.a1f578p-4f},
    {0x1.dba016p-6f, 0x1.d776d4p-6f, 0x1.901bcep-6f, 0x1.2d4c0ap-6f, 0x1.99f686p-7f, 0x1.fd3c1ap-8f, 0x1.22a4fp-8f, 0x1.32424cp-9f,
     0x1.a08b4ap-11f, 0x1.2b2766p-13f, 0x1.445a18p-16f, 0x1.0b773cp-19f, 0x1.5139d8p-23f, 0, 0, 0,
     -0x1.108b38p-4f, -0x1.0cb8p-4f, -0x1.066cd6p-4f, -0x1.fa4694p-5f, -0x1.e2122cp-5f, -0x1.c4b29ep-5f, -0x1.a2b58ep-5f, -0x1.7cbc64p-5f,
     -0x1.3dba12p-5f, -0x1.c57b12p-6f, -0x1.0a3cfep-6f, -0x1.550d1ep-8f, 0x1.3deafp-8f, 0x1.b89aap-7f, 0x1.4c3326p-6f, 0x1.9cee38p-6f},
    {0x1.58de08p-9f, -0x1.65b36ep-9f, -0x1.6cb67ep-8f, -0x1.95c596p-8f, -0x1.62544ap-8f, -0x1.0886bp-8f, -0x1.5d9242p-9f, -0x1.a0371ap-10f,
     -0x1.4722dp-11f, -0x1.15627ep-13f, -0x1.59262ap-16f, -0x1.404b42p-19f, -0x1.bfef42p-23f, 0, 0, 0,
     0x1.468d2ep-10f, 0x1.2ca54cp-8f, 0x1.f247b6p-8f, 0x1.56b362p-7f, 0x1.ad8ae8p-7f, 0x1.fc2abp-7f, 0x1.209f44p-6f, 0x1.3dd706p-6f,
     0x1.5e6c92p-6f, 0x1.7537a8p-6f, 0x1.73ebbap-6f, 0x1.5ccc1ap-6f, 0x1.33ce4p-6f, 0x1.fc0cc6p-7f, 0x1.8205a8p-7f, 0x1.045aap-7f},
};
alignas(64) constexpr float gelu_slope_pieces[][32] = {
    {0x1.3df966p-1f, 0x1.3278cep-1f, 0x1.24cb54p-1f, 0x1.186a02p-1f, 0x1.0ee212p-1f, 0x1.08623cp-1f, 0x1.046164p-1f, 0x1.0220e4p-1f,
     0x1.00a1b8p-1f, 0x1.00192ep-1f, 0x1.0003p-1f, 0x1.000046p-1f, 0x1.000004p-1f, 0x1p-1f, 0x1p-1f, 0x1p-1f,
     0, 0x1.317de8p-4f, 0x1.fa8362p-4f, 0x1.5fcfc8p-3f, 0x1.bfad38p-3f, 0x1.0e14eap-2f, 0x1.3a521ap-2f, 0x1.64460ep-2f,
     0x1.9e64d8p-2f, 0x1.e1f4dp-2f, 0x1.0cad94p-1f, 0x1.222ddap-1f, 0x1.31af74p-1f, 0x1.3bac1cp-1f, 0x1.40d216p-1f, 0x1.41f138p-1f},
    {-0x1.178cc6p-4f, -0x1.ab0622p-4f, -0x1.ade538p-4f, -0x1.627d82p-4f, -0x1.fdc9c4p-5f, -0x1.48682ap-5f, -0x1.808814p-6f, -0x1.9cadeap-7f,
     -0x1.16aa16p-8f, -0x1.91749ap-11f, -0x1.b0cc8ap-14f, -0x1.60a4bcp-17f, -0x1.b51822p-21f, 0, 0, 0,
     0x1.988454p-1f, 0x1.94f02ep-1f, 0x1.8ea258p-1f, 0x1.8550d8p-1f, 0x1.7924fcp-1f, 0x1.6a5428p-1f, 0x1.591e82p-1f, 0x1.45cd4ep-1f,
     0x1.2591bap-1f, 0x1.ec9e6p-2f, 0x1.8978aep-2f, 0x1.271efap-2f, 0x1.94bb22p-3f, 0x1.dc351cp-4f, 0x1.7f0b94p-5f, -0x1.34ebcp-7f},
    {-0x1.e1fcccp-4f, -0x1.ffccfap-6f, 0x1.7677bep-6f, 0x1.7b6588p-5f, 0x1.8b783ep-5f, 0x1.4164f2p-5f, 0x1.be178cp-6f, 0x1.120aeap-6f,
     0x1.b4021ep-8f, 0x1.75a76ap-10f, 0x1.d063ccp-13f, 0x1.ab38dcp-16f, 0x1.26846cp-19f, 0, 0, 0,
     0x1.e952b8p-19f, -0x1.305f68p-4f, -0x1.f55ef4p-4f, -0x1.58d37ep-3f, -0x1.b105f8p-3f, -0x1.00ebf6p-2f, -0x1.2504fcp-2f, -0x1.4449d6p-2f,
     -0x1.694c9cp-2f, -0x1.87142cp-2f, -0x1.8e7442p-2f, -0x1.8120fap-2f, -0x1.62567ap-2f, -0x1.365dfep-2f, -0x1.0202cap-2f, -0x1.9414dcp-3f},
    {0x1.1051fep-3f, 0x1.831202p-4f, 0x1.9c657ap-5f, 0x1.e3bd5ep-7f, -0x1.b5c13ap-8f, -0x1.f50ba4p-7f, -0x1.fdf462p-7f, -0x1.8b581ap-7f,
     -0x1.9291b4p-8f, -0x1.b5c4a2p-10f, -0x1.47aa48p-12f, -0x1.60d248p-15f, -0x1.17a84ap-18f, 0, 0, 0,
     -0x1.10a4b2p-2f, -0x1.0ae9b4p-2f, -0x1.01845ep-2f, -0x1.e774aap-3f, -0x1.c3cc1ep-3f, -0x1.98f6ccp-3f, -0x1.680776p-3f, -0x1.3232dap-3f,
     -0x1.b61e9ep-4f, -0x1.89af44p-5f, 0x1.1ec5acp-7f, 0x1.e3066ap-5f, 0x1.9637b4p-4f, 0x1.04cdd4p-3f, 0x1.2495fep-3f, 0x1.2bdd44p-3f},
    {-0x1.dc8c44p-6f, -0x1.6bbf1cp-5f, -0x1.541d52p-5f, -0x1.d6d968p-6f, -0x1.d7feaep-7f, -0x1.d78ddp-9f, 0x1.2b1f04p-9f, 0x1.13608ap-8f,
     0x1.b6eafp-9f, 0x1.47d0f2p-10f, 0x1.2da26p-12f, 0x1.7bd966p-15f, 0x1.562692p-18f, 0, 0, 0,
     0x1.e9b5a2p-8f, 0x1.c1dcfp-6f, 0x1.732a0ep-5f, 0x1.fb2b58p-5f, 0x1.3aff9ep-4f, 0x1.7067f2p-4f, 0x1.9c9e5cp-4f, 0x1.bebc2cp-4f,
     0x1.dd3b68p-4f, 0x1.e0cc2ep-4f, 0x1.bc02b8p-4f, 0x1.764976p-4f, 0x1.1a02cep-4f, 0x1.65d078p-5f, 0x1.3198bcp-6f, -0x1.f90cfp-9f},
};
alignas(64) constexpr float expm1_pieces[][32] = {
    {0x1.2a911p-1f, 0x1.59c726p-1f, 0x1.7e8bcep-1f, 0x1.9b2e64p-1f, 0x1.b17b76p-1f, 0x1.c2d9aep-1f, 0x1.d06068p-1f, 0x1.dae92ep-1f,
     0x1.e6825p-1f, 0x1.f089f8p-1f, 0x1.f69f56p-1f, 0x1.fa4fecp-1f, 0x1.fc8cd8p-1f, 0x1.fde856p-1f, 0x1.febb1ap-1f, 0x1.ff3afp-1f,
     0x1.ffa2eap-1f, 0x1.ffddc2p-1f, 0x1.fff368p-1f, 0x1.fffb5ep-1f, 0x1.fffe4cp-1f, 0x1.ffff6p-1f, 0x1.ffffc4p-1f, 0x1.ffffeap-1f,
     0x1.fffffcp-1f, 0x1p+0f, 0, 0x1.5e25fcp-3f, 0x1.12d35ap-2f, 0x1.6adb1cp-2f, 0x1.b88adap-2f, 0x1.fd19b8p-2f},
    {0x1.aaddcep-2f, 0x1.4c71a4p-2f, 0x1.02e858p-2f, 0x1.93465cp-3f, 0x1.3a121ep-3f, 0x1.e93276p-4f, 0x1.7cfcb2p-4f, 0x1.28b68ap-4f,
     0x1.97d9fcp-5f, 0x1.eebfb6p-6f, 0x1.2c1494p-6f, 0x1.6c0412p-7f, 0x1.b992d8p-8f, 0x1.0bd3f2p-8f, 0x1.44e446p-9f, 0x1.8a1d12p-10f,
     0x1.74465ap-11f, 0x1.11e78ep-12f, 0x1.930e2ap-14f, 0x1.288d32p-15f, 0x1.b4618p-17f, 0x1.411234p-18f, 0x1.d8763ap-20f, 0x1.5b9e34p-21f,
     0x1.3578dcp-23f, 0, 0x1p+0f, 0x1.a8768p-1f, 0x1.769652p-1f, 0x1.4a927p-1f, 0x1.23ba92p-1f, 0x1.017324p-1f},
    {-0x1.aadda8p-3f, -0x1.4c719p-3f, -0x1.02e84cp-3f, -0x1.934652p-4f, -0x1.3a1218p-4f, -0x1.e9327p-5f, -0x1.7cfcbp-5f, -0x1.28b68ap-5f,
     -0x1.97d9f2p-6f, -0x1.eebfc2p-7f, -0x1.2c14a2p-7f, -0x1.6c0428p-8f, -0x1.b992f8p-9f, -0x1.0bd408p-9f, -0x1.44e462p-10f, -0x1.8a1d34p-11f,
     -0x1.744868p-12f, -0x1.11e914p-13f, -0x1.93106cp-15f, -0x1.288edcp-16f, -0x1.b463f4p-18f, -0x1.411402p-19f, -0x1.d878e2p-21f, -0x1.5ba028p-22f,
     -0x1.359596p-24f, 0, -0x1.fffef6p-2f, -0x1.a8766ep-2f, -0x1.76964ap-2f, -0x1.4a926cp-2f, -0x1.23ba9p-2f, -0x1.017322p-2f},
    {0x1.1cdb16p-4f, 0x1.bbb12p-5f, 0x1.598c3p-5f, 0x1.0d1cdcp-5f, 0x1.a32ba2p-6f, 0x1.467344p-6f, 0x1.fc7abcp-7f, 0x1.8c0112p-7f,
     0x1.10f7b8p-7f, 0x1.4b206p-8f, 0x1.91ad3ap-9f, 0x1.e74228p-10f, 0x1.278982p-10f, 0x1.668132p-11f, 0x1.b2e35ep-12f, 0x1.07c5e4p-12f,
     0x1.f840dap-14f, 0x1.730244p-15f, 0x1.10f91ap-16f, 0x1.91af46p-18f, 0x1.278b06p-19f, 0x1.b2e59ap-21f, 0x1.3ffaacp-22f, 0x1.d6dae6p-24f,
     0x1.b840cp-26f, 0, 0x1.5502ap-3f, 0x1.1b0b48p-3f, 0x1.f39248p-4f, 0x1.b8deccp-4f, 0x1.851114p-4f, 0x1.5759a4p-4f},
    {-0x1.1d288p-6f, -0x1.bbff92p-7f, -0x1.59b56ap-7f, -0x1.0d32dep-7f, -0x1.a3431ap-8f, -0x1.467f94p-8f, -0x1.fc872ap-9f, -0x1.8c06dcp-9f,
     -0x1.10fc9ap-9f, -0x1.4b1aeep-10f, -0x1.919e88p-11f, -0x1.e72a7ep-12f, -0x1.27790ap-12f, -0x1.666bacp-13f, -0x1.b2c81ep-14f, -0x1.07b4f2p-14f,
     -0x1.f7bd4ap-16f, -0x1.72a05ep-17f, -0x1.10b0c6p-18f, -0x1.9144bp-20f, -0x1.273c88p-21f, -0x1.b27214p-23f, -0x1.3fa5a4p-24f, -0x1.d65dd2p-26f,
     -0x1.b67464p-28f, 0, -0x1.44b42ep-5f, -0x1.1b980ap-5f, -0x1.f41a24p-6f, -0x1.b92ddp-6f, -0x1.854338p-6f, -0x1.577b08p-6f},
};
alignas(64) constexpr float softplus_pieces[][32] = {
    {0x1.64cea8p-2f, 0x1.1fe5d2p-2f, 0x1.cda526p-3f, 0x1.701df4p-3f, 0x1.2432d2p-3f, 0x1.ce1ebcp-4f, 0x1.6c4bcap-4f, 0x1.1e756cp-4f,
     0x1.8e070ep-5f, 0x1.e76e4ap-6f, 0x1.295e5p-6f, 0x1.6a0334p-7f, 0x1.b818dap-8f, 0x1.0b48ecp-8f, 0x1.447e36p-9f, 0x1.89d254p-10f,
     0x1.74344ap-11f, 0x1.11e9fep-12f, 0x1.931a48p-14f, 0x1.28986ap-15f, 0x1.b47344p-17f, 0x1.411f9cp-18f, 0x1.d88a22p-20f, 0x1.5bace6p-21f,
     0x1.3655c6p-23f, 0, 0x1.62e43p-1f, 0x1.352358p-1f, 0x1.191db8p-1f, 0x1.fe16fcp-2f, 0x1.cdc28p-2f, 0x1.a120a2p-2f},
    {-0x1.2d46b6p-2f, -0x1.f5ef2cp-3f, -0x1.9d5048p-3f, -0x1.50ee06p-3f, -0x1.104f9p-3f, -0x1.b50134p-4f, -0x1.5c90dp-4f, -0x1.14abd4p-4f,
     -0x1.8482ep-5f, -0x1.e03faap-6f, -0x1.26af14p-6f, -0x1.68045ep-7f, -0x1.b69e6p-8f, -0x1.0abcecp-8f, -0x1.4416a6p-9f, -0x1.8985a2p-10f,
     -0x1.7402e4p-11f, -0x1.11d548p-12f, -0x1.930446p-14f, -0x1.288a84p-15f, -0x1.b4600ep-17f, -0x1.4111cep-18f, -0x1.d87604p-20f, -0x1.5b9e26p-21f,
     -0x1.3578d8p-23f, 0, -0x1p-1f, -0x1.d023ep-2f, -0x1.b0a50ep-2f, -0x1.91c0cp-2f, -0x1.73ae34p-2f, -0x1.569e9ep-2f},
    {0x1.a9459ep-4f, 0x1.7aead2p-4f, 0x1.49e6b2p-4f, 0x1.197fc8p-4f, 0x1.d834dp-5f, 0x1.866166p-5f, 0x1.3ee73ap-5f, 0x1.01fbb2p-5f,
     0x1.7217a8p-6f, 0x1.d22ebep-7f, 0x1.2162dep-7f, 0x1.640ffep-8f, 0x1.b3af18p-9f, 0x1.09a71ep-9f, 0x1.4349a4p-10f, 0x1.88ee8ep-11f,
     0x1.73c184p-12f, 0x1.11c48cp-13f, 0x1.92fca4p-15f, 0x1.288982p-16f, 0x1.b4610ep-18f, 0x1.411338p-19f, 0x1.d87874p-21f, 0x1.5ba00ap-22f,
     0x1.35959p-24f, 0, 0x1.000018p-3f, 0x1.fb86b6p-4f, 0x1.f3b35ep-4f, 0x1.e842c8p-4f, 0x1.d98b34p-4f, 0x1.c7f722p-4f},
    {-0x1.d21102p-7f, -0x1.01458ap-6f, -0x1.061652p-6f, -0x1.f75a1ep-7f, -0x1.ce0128p-7f, -0x1.996212p-7f, -0x1.60db82p-7f, -0x1.299436p-7f,
     -0x1.bf6facp-8f, -0x1.254fap-8f, -0x1.751a56p-9f, -0x1.d1e624p-10f, -0x1.1f99eap-10f, -0x1.60a162p-11f, -0x1.ae8cdap-12f, -0x1.062c7p-12f,
     -0x1.f6c156p-14f, -0x1.729a58p-15f, -0x1.10dcf6p-16f, -0x1.91a00ap-18f, -0x1.2786e6p-19f, -0x1.b2e35ep-21f, -0x1.3ffa14p-22f, -0x1.d6da96p-24f,
     -0x1.b840acp-26f, 0, -0x1.c696dap-19f, -0x1.f9cd0ap-9f, -0x1.9cddeep-8f, -0x1.183bdep-7f, -0x1.59ee3cp-7f, -0x1.921578p-7f},
    {-0x1.1605a8p-9f, -0x1.bb3ff6p-11f, 0x1.d929dcp-13f, 0x1.06f0a4p-10f, 0x1.83bb3ap-10f, 0x1.bd28bap-10f, 0x1.c49b48p-10f, 0x1.ab7ec2p-10f,
     0x1.664076p-10f, 0x1.00d146p-10f, 0x1.5932ecp-11f, 0x1.bcfda6p-12f, 0x1.17b9dp-12f, 0x1.5ababep-13f, 0x1.aa21eap-14f, 0x1.0483a8p-14f,
     0x1.f4bfb6p-16f, 0x1.71d0dp-17f, 0x1.10789p-18f, 0x1.912642p-20f, 0x1.273452p-21f, 0x1.b26da8p-23f, 0x1.3fa48p-24f, 0x1.d65d36p-26f,
     0x1.b67444p-28f, 0, -0x1.53d5ecp-8f, -0x1.494dp-8f, -0x1.34f0fp-8f, -0x1.180d14p-8f, -0x1.e8ca38p-9f, -0x1.980e38p-9f},
};
// clang-format on

// f(a) for a >= 0.
template <int rows>
D5_INLINE Vector by_pieces(const Pieces& pieces, const float (&table)[rows][32], Vector a) {
  const __m512i piece = reinterpret_cast<__m512i>(bits_of(a + pieces.first) >> 20);
  const auto picked = [&](const float(&row)[32]) __attribute__((always_inline))->Vector {
    return _mm512_permutex2var_ps(_mm512_load_ps(row), piece, _mm512_load_ps(row + 16));
  };
  const Vector t = a - picked(pieces.origin);
  Vector p = picked(table[rows - 1]);
#pragma GCC unroll 4
  for (int k = rows - 2; k >= 0; --k) p = p * t + picked(table[k]);
  return p;
}

D5_INLINE Vector tanh_of(Vector x) {
  return with_sign(by_pieces(pieces_to_9, tanh_pieces, at_most(absolute(x), 9.3f)), x);
}
D5_INLINE Vector erf_of(Vector x) {
  return with_sign(by_pieces(pieces_to_7, erf_pieces, at_most(absolute(x), 4.0f)), x);
}
// x (1 + erf(x / sqrt 2)) / 2; the pieces are of the factor's distance from 1/2, and so they are of the slope's.
D5_INLINE Vector gelu_of(Vector x) {
  const Vector a = absolute(x);
  return a * by_pieces(pieces_to_7, normal_pieces, at_most(a, 6.0f)) + 0.5f * x;
}
D5_INLINE Vector gelu_slope(Vector x) {
  return with_sign(by_pieces(pieces_to_7, gelu_slope_pieces, at_most(absolute(x), 6.0f)), x) + 0.5f;
}
D5_INLINE Vector expm1_below(Vector x) {  // x <= 0
  return -by_pieces(pieces_to_18, expm1_pieces, at_most(-x, 17.0f));
}
// max(x, 0) + log(1 + exp(-|x|))
D5_INLINE Vector softplus_of(Vector x) {
  return by_pieces(pieces_to_18, softplus_pieces, at_most(absolute(x), 17.0f)) + at_least(x, 0.0f);
}

#else

// tanh and erf: 2 t / (1 + t^2) with t = p / q, where the error of t counts the less the nearer the result is to 1; t
// is tanh of half the argument (for erf of half of what tanh needs to give it), up to where f32 has no number below 1.
// The common factor of p and q (1.84, 1.72) puts what is rounded near 0 just below a power of two, where rounding is
// finest. Both are odd: |x| is bounded from one side, and the sign comes back at the end.
struct Ratio {
  Vector p, q;
};
D5_INLINE Vector doubled(const Ratio& t) { return (t.p + t.p) * t.q / (t.p * t.p + t.q * t.q); }
D5_INLINE Vector tanh_of(Vector x) {
  const Vector a = at_most(absolute(x), 9.05f), z = a * a;
  const Vector p = (0x1.b86b58p-14f * z + 0x1.c0b332p-6f) * z + 0x1.d70a3ep-1f;
  const Vector q = ((0x1.2ef352p-19f * z + 0x1.22d724p-9f) * z + 0x1.aa3394p-3f) * z + 0x1.d70a3ep+0f;
  return with_sign(doubled({a * p, q}), x);
}
D5_INLINE Ratio erf_ratio(Vector magnitude) {
  const Vector a = at_most(magnitude, 3.95f), z = a * a;
  const Vector p = ((0x1.1e64d8p-9f * z + 0x1.c6d7acp-6f) * z + 0x1.05e446p-2f) * z + 0x1.f0d912p-1f;
  const Vector q =
      (((0x1.64d18p-13f * z + 0x1.54e804p-7f) * z + 0x1.555e16p-4f) * z + 0x1.eaa74cp-2f) * z + 0x1.b851ecp+0f;
  return {a * p, q};
}
D5_INLINE Vector erf_of(Vector x) { return with_sign(doubled(erf_ratio(absolute(x))), x); }
// (1 + erf z) / 2 = (p + q)^2 / (2 (p^2 + q^2)) with z = x / sqrt 2, where p has the sign of x.
D5_INLINE Vector normal_of(Vector x) {
  const Ratio t = erf_ratio(absolute(x) * 0x1.6a09e6p-1f);
  const Vector s = with_sign(t.p, x) + t.q, whole = t.p * t.p + t.q * t.q;
  return s * s / (whole + whole);
}
D5_INLINE Vector gelu_of(Vector x) { return x * normal_of(x); }
D5_INLINE Vector gelu_slope(Vector x) {
  return normal_of(x) + x * 0x1.988454p-2f * exp_of(-0.5f * x * x);  // 1 / sqrt(2 pi)
}
D5_INLINE Vector expm1_below(Vector x) { return expm1_of(x); }
// max(x, 0) + log(1 + e), e = exp(-|x|): a polynomial in e.
D5_INLINE Vector softplus_of(Vector x) {
  const Vector e = exp_of(-absolute(x));
  Vector p = 0x1.56ecdcp-8f * e - 0x1.e368c2p-6f;
  p = p * e + 0x1.406960p-4f;
  p = p * e - 0x1.17d28ep-3f;
  p = p * e + 0x1.874a68p-3f;
  p = p * e - 0x1.fcc8c0p-3f;
  p = p * e + 0x1.553002p-2f;
  p = p * e - 0x1.fffeacp-2f;
  p = p * e + 0x1.fffffep-1f;
  return p * e + at_least(x, 0.0f);
}

#endif

}  // namespace d5::onednn::own::D5_ISA
