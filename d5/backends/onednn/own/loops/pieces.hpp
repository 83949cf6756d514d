// SPDX-License-Identifier: Apache-2.0
// tanh, erf, the normal distribution, expm1 below 0 and softplus. With AVX-512 they are polynomials of degree 4 (3) on
// 32 pieces of their range, whose coefficients lie in registers and are picked by a permutation; elsewhere they are
// ratios and polynomials for the whole range.
#pragma once

#include "d5/backends/onednn/own/loops/exp_log.hpp"

namespace d5::onednn::own::D5_ISA {

#if defined(__AVX512DQ__)

// Row k holds the coefficients of t^k, weighted least squares with equal extremes of the relative error (at most
// 2^-24). The last piece in use is the constant that the function has reached in f32.
// clang-format off
alignas(64) constexpr float tanh_pieces[][32] = {
    {0x1.eb9b16p-1f, 0x1.f53e7cp-1f, 0x1.fa5a5ap-1f, 0x1.fd0ad2p-1f, 0x1.fe73eap-1f, 0x1.ff30f2p-1f, 0x1.ff93ccp-1f, 0x1.ffc776p-1f,
     0x1.ffe276p-1f, 0x1.fff7fp-1f, 0x1.fffdccp-1f, 0x1.ffff66p-1f, 0x1.ffffd6p-1f, 0x1.fffff4p-1f, 0x1.fffffcp-1f, 0x1p+0f,
     0, 0x1.4bbd44p-4f, 0x1.4993d2p-3f, 0x1.e9129cp-3f, 0x1.4141fap-2f, 0x1.8a2d44p-2f, 0x1.ceafcap-2f, 0x1.072dfep-1f,
     0x1.24789cp-1f, 0x1.574e78p-1f, 0x1.803d5cp-1f, 0x1.a059eap-1f, 0x1.b907e8p-1f, 0x1.cbb38cp-1f, 0x1.d9a85ap-1f, 0x1.e3ff34p-1f},
    {0x1.9f4f3ep-4f, 0x1.ba449ap-5f, 0x1.d2bbf8p-6f, 0x1.ea34acp-7f, 0x1.00c882p-7f, 0x1.0caaa2p-8f, 0x1.18e804p-9f, 0x1.25991ap-10f,
     0x1.327174p-11f, 0x1.4e8ce6p-13f, 0x1.6d314cp-15f, 0x1.8ea0e6p-17f, 0x1.b31f36p-19f, 0x1.daf48p-21f, 0x1.03379cp-22f, 0,
     0x1.4c77bp+0f, 0x1.4a495cp+0f, 0x1.43db7ep+0f, 0x1.3981eep+0f, 0x1.2bbe88p+0f, 0x1.1b340ep+0f, 0x1.08972ap+0f, 0x1.e93f18p-1f,
     0x1.bff708p-1f, 0x1.6dfbf6p-1f, 0x1.22719ep-1f, 0x1.c2778ep-2f, 0x1.571edcp-2f, 0x1.01ce4ep-2f, 0x1.7f7218p-3f, 0x1.1afbfap-3f},
    {-0x1.0288b4p-3f, -0x1.1893f4p-4f, -0x1.2b09eep-5f, -0x1.3bb36ep-6f, -0x1.4ba332p-7f, -0x1.5b7926p-8f, -0x1.6b91fcp-9f, -0x1.7c2488p-10f,
     -0x1.87c13p-11f, -0x1.abbf82p-13f, -0x1.d2f1dap-15f, -0x1.fdb3c6p-17f, -0x1.162ed2p-18f, -0x1.2fa63cp-20f, -0x1.4b726p-22f, 0,
     0x1.f3ff9p-16f, -0x1.15c6bcp-3f, -0x1.0ead46p-2f, -0x1.84e116p-2f, -0x1.e87e28p-2f, -0x1.1b2912p-1f, -0x1.368a1cp-1f, -0x1.469ed8p-1f,
     -0x1.4c806ap-1f, -0x1.3edcfcp-1f, -0x1.1b3122p-1f, -0x1.dbdd1p-2f, -0x1.7fe668p-2f, -0x1.2c9f1ep-2f, -0x1.cca824p-3f, -0x1.5b5c4p-3f},
    {0x1.92c472p-4f, 0x1.c48fcep-5f, 0x1.eaf0c2p-6f, 0x1.058502p-6f, 0x1.1405d2p-7f, 0x1.21ea52p-8f, 0x1.2fbc3ep-9f, 0x1.3dcb06p-10f,
     0x1.30d2c2p-11f, 0x1.4ce60ep-13f, 0x1.6b6cap-15f, 0x1.8cb57p-17f, 0x1.b1078cp-19f, 0x1.d8ac08p-21f, 0x1.01f8b2p-22f, 0,
     -0x1.770e04p-1f, -0x1.6ddb3ep-1f, -0x1.5152d4p-1f, -0x1.252de2p-1f, -0x1.dbe5p-2f, -0x1.6196c2p-2f, -0x1.cb1bep-3f, -0x1.c1c2cep-4f,
     -0x1.5592aap-9f, 0x1.2e1838p-3f, 0x1.cd41b6p-3f, 0x1.f8902ap-3f, 0x1.dbb15p-3f, 0x1.9ba57p-3f, 0x1.513924p-3f, 0x1.0a410ep-3f},
    {-0x1.656114p-5f, -0x1.a62566p-6f, -0x1.d52e22p-7f, -0x1.f9fdd4p-8f, -0x1.0cb38ap-8f, -0x1.1b23cep-9f, -0x1.2922d8p-10f, -0x1.37292ep-11f,
     -0x1.df623ap-13f, -0x1.05d374p-14f, -0x1.1dda0ap-16f, -0x1.380968p-18f, -0x1.549b58p-20f, -0x1.73c9e8p-22f, -0x1.95d332p-24f, 0,
     0x1.f60cf8p-5f, 0x1.c0052p-3f, 0x1.5d27dep-2f, 0x1.b6234cp-2f, 0x1.e60c24p-2f, 0x1.edb9a8p-2f, 0x1.d2e5dcp-2f, 0x1.9e5e38p-2f,
     0x1.352be6p-2f, 0x1.45ae06p-3f, 0x1.7710a8p-5f, -0x1.a414c8p-6f, -0x1.f3bdcap-5f, -0x1.268748p-4f, -0x1.1ab37ep-4f, -0x1.ea6be2p-5f},
};
alignas(64) constexpr float erf_pieces[][32] = {
    {0x1.eea556p-1f, 0x1.f92d08p-1f, 0x1.fd9ae2p-1f, 0x1.ff4048p-1f, 0x1.ffcaaap-1f, 0x1.fff2dp-1f, 0x1.fffd1ap-1f, 0x1.ffff7p-1f,
     0x1.ffffe8p-1f, 0x1p+0f, 0, 0, 0, 0, 0, 0,
     0, 0x1.207d48p-4f, 0x1.1f5e1ap-3f, 0x1.ac45e4p-3f, 0x1.1af54ep-2f, 0x1.5da9f4p-2f, 0x1.9dd0d2p-2f, 0x1.db081cp-2f,
     0x1.0a7ef6p-1f, 0x1.3f196ep-1f, 0x1.6c1c98p-1f, 0x1.91724ap-1f, 0x1.af767ap-1f, 0x1.c6dad2p-1f, 0x1.d8865ep-1f, 0x1.e5768cp-1f},
    {0x1.e724bap-4f, 0x1.b04c58p-5f, 0x1.52879cp-6f, 0x1.d3ddbcp-8f, 0x1.1d4b5cp-9f, 0x1.33053p-11f, 0x1.238c22p-13f, 0x1.e89772p-16f,
     0x1.60fb4ap-18f, 0, 0, 0, 0, 0, 0, 0,
     0x1.20dd74p+0f, 0x1.1fbd26p+0f, 0x1.1c62f8p+0f, 0x1.16e2d6p+0f, 0x1.0f5d14p+0f, 0x1.05fd3ep+0f, 0x1.f5f0ccp-1f, 0x1.dd167cp-1f,
     0x1.c1efd2p-1f, 0x1.86e988p-1f, 0x1.492e72p-1f, 0x1.0cab98p-1f, 0x1.a9125ap-2f, 0x1.45e9f4p-2f, 0x1.e465aep-3f, 0x1.5ce5ep-3f},
    {-0x1.6d7412p-3f, -0x1.79c068p-4f, -0x1.51593p-5f, -0x1.058e82p-6f, -0x1.614d46p-8f, -0x1.a0b34cp-10f, -0x1.ade608p-12f, -0x1.84781ap-14f,
     -0x1.12c0a6p-16f, 0, 0, 0, 0, 0, 0, 0,
     0x1.ccd4d8p-18f, -0x1.1faa5cp-4f, -0x1.1c59bep-3f, -0x1.a24beap-3f, -0x1.0f5992p-2f, -0x1.4779d8p-2f, -0x1.7872c8p-2f, -0x1.a172cap-2f,
     -0x1.c1f2f4p-2f, -0x1.e8b332p-2f, -0x1.eddd26p-2f, -0x1.d6473cp-2f, -0x1.a92c58p-2f, -0x1.6ebcfp-2f, -0x1.2ecf36p-2f, -0x1.dfce82p-3f},
    {0x1.1d9e8ep-3f, 0x1.6b78dcp-4f, 0x1.7cd104p-5f, 0x1.4feb8cp-6f, 0x1.f95742p-8f, 0x1.46b82p-9f, 0x1.6d19d8p-11f, 0x1.61f276p-13f,
     0x1.ac8182p-16f, 0, 0, 0, 0, 0, 0, 0,
     -0x1.81b75cp-2f, -0x1.7d8842p-2f, -0x1.702c96p-2f, -0x1.5a74e4p-2f, -0x1.3d3968p-2f, -0x1.1994f6p-2f, -0x1.e1b004p-3f, -0x1.88ef6cp-3f,
     -0x1.2b8694p-3f, -0x1.bd889cp-5f, 0x1.d7fe04p-6f, 0x1.8635f8p-4f, 0x1.200c26p-3f, 0x1.50a33ep-3f, 0x1.59f9fp-3f, 0x1.452a8ap-3f},
    {-0x1.941ac8p-5f, -0x1.594ae8p-5f, -0x1.b0b83p-6f, -0x1.b1231ap-7f, -0x1.66dbc4p-8f, -0x1.f57c0ep-10f, -0x1.2ad8a6p-11f, -0x1.320558p-13f,
     -0x1.0d4d6cp-16f, 0, 0, 0, 0, 0, 0, 0,
     0x1.cd7178p-7f, 0x1.a6087cp-5f, 0x1.592d76p-4f, 0x1.d17c8ap-4f, 0x1.1c06c4p-3f, 0x1.44cdaap-3f, 0x1.61f184p-3f, 0x1.72e208p-3f,
     0x1.7527fcp-3f, 0x1.52d4fcp-3f, 0x1.0f90ap-3f, 0x1.74be2ap-4f, 0x1.89ec26p-5f, 0x1.465104p-7f, -0x1.3edc8cp-6f, -0x1.3c79a2p-5f},
};
alignas(64) constexpr float normal_pieces[][32] = {
    {0x1.bb96e4p-2f, 0x1.d6fabcp-2f, 0x1.e8b43p-2f, 0x1.f37b6ep-2f, 0x1.f9a42cp-2f, 0x1.fcf2ep-2f, 0x1.fe9e22p-2f, 0x1.ff68bcp-2f,
     0x1.ffc306p-2f, 0x1.fff7b2p-2f, 0x1.ffff1cp-2f, 0x1.ffffecp-2f, 0x1.fffffep-2f, 0x1p-1f, 0, 0,
     0, 0x1.984048p-6f, 0x1.97749ep-5f, 0x1.309a14p-4f, 0x1.944d16p-4f, 0x1.f67486p-4f, 0x1.2b5b0ep-3f, 0x1.5a5e88p-3f,
     0x1.881d78p-3f, 0x1.df42fap-3f, 0x1.17efp-2f, 0x1.3ca258p-2f, 0x1.5d897ap-2f, 0x1.7a9412p-2f, 0x1.93d08cp-2f, 0x1.a9679ap-2f},
    {0x1.09418ep-3f, 0x1.6165a8p-4f, 0x1.ba4c58p-5f, 0x1.0402c2p-5f, 0x1.1f2d82p-6f, 0x1.29f6a4p-7f, 0x1.226bap-8f, 0x1.09ea38p-9f,
     0x1.c86304p-11f, 0x1.1772c2p-13f, 0x1.0a5ee2p-16f, 0x1.8b4182p-20f, 0x1.c880b4p-24f, 0, 0, 0,
     0x1.988454p-2f, 0x1.97b844p-2f, 0x1.955678p-2f, 0x1.91661p-2f, 0x1.8bf2bap-2f, 0x1.850c86p-2f, 0x1.7cc794p-2f, 0x1.733bacp-2f,
     0x1.6883cap-2f, 0x1.50096cp-2f, 0x1.345d6p-2f, 0x1.16959ap-2f, 0x1.ef8e68p-3f, 0x1.b1ec74p-3f, 0x1.7610ccp-3f, 0x1.3d7726p-3f},
    {-0x1.8e23eep-4f, -0x1.35636ep-4f, -0x1.ba6f94p-5f, -0x1.2480a8p-5f, -0x1.66cb5cp-6f, -0x1.994212p-7f, -0x1.b2dad2p-8f, -0x1.aefc76p-9f,
     -0x1.86bd4ep-10f, -0x1.0e5e32p-12f, -0x1.1e47e4p-15f, -0x1.d18122p-19f, -0x1.2356aap-22f, 0, 0, 0,
     0x1.4655c6p-21f, -0x1.97aab6p-7f, -0x1.954f8cp-6f, -0x1.2d0934p-5f, -0x1.8bef9cp-5f, -0x1.e64cd8p-5f, -0x1.1d9476p-4f, -0x1.44d332p-4f,
     -0x1.687e4ep-4f, -0x1.a409fp-4f, -0x1.ce8dc4p-4f, -0x1.e78a9cp-4f, -0x1.ef95a2p-4f, -0x1.e832d8p-4f, -0x1.d39e96p-4f, -0x1.b48d5ep-4f},
    {0x1.c61236p-6f, 0x1.edd20cp-6f, 0x1.bdb29ep-6f, 0x1.6004bep-6f, 0x1.f28b98p-7f, 0x1.40bfb8p-7f, 0x1.7a098p-8f, 0x1.9a501p-9f,
     0x1.73d702p-10f, 0x1.2044e6p-12f, 0x1.4ec006p-15f, 0x1.25e12ep-18f, 0x1.889468p-22f, 0, 0, 0,
     -0x1.108b38p-4f, -0x1.0f114ap-4f, -0x1.0a5166p-4f, -0x1.027e18p-4f, -0x1.ef7e82p-5f, -0x1.d493f2p-5f, -0x1.b4bf82p-5f, -0x1.9099d4p-5f,
     -0x1.6987a4p-5f, -0x1.11647ep-5f, -0x1.6737ecp-6f, -0x1.58ec9cp-7f, 0x1.4395fp-13f, 0x1.39977p-7f, 0x1.1bf27p-6f, 0x1.7c62e6p-6f},
    {0x1.58dep-9f, -0x1.65b378p-9f, -0x1.6cb682p-8f, -0x1.95c598p-8f, -0x1.62544cp-8f, -0x1.0886bp-8f, -0x1.5d9242p-9f, -0x1.a03716p-10f,
     -0x1.4722cp-11f, -0x1.156268p-13f, -0x1.5926p-16f, -0x1.404b1cp-19f, -0x1.bfeefap-23f, 0, 0, 0,
     0x1.468d2ep-10f, 0x1.2ca54cp-8f, 0x1.f247b6p-8f, 0x1.56b36p-7f, 0x1.ad8ae6p-7f, 0x1.fc2abp-7f, 0x1.209f44p-6f, 0x1.3dd704p-6f,
     0x1.5e6c94p-6f, 0x1.7537a8p-6f, 0x1.73ebbap-6f, 0x1.5ccc1ap-6f, 0x1.33ce4p-6f, 0x1.fc0cc6p-7f, 0x1.8205a8p-7f, 0x1.045aap-7f},
};
alignas(64) constexpr float expm1_pieces[][32] = {
    {0x1.6d4f3ep-1f, 0x1.94add2p-1f, 0x1.b17b76p-1f, 0x1.c68e22p-1f, 0x1.d5f8f4p-1f, 0x1.e14084p-1f, 0x1.e9811ap-1f, 0x1.ef8ab2p-1f,
     0x1.f3f57cp-1f, 0x1.f98e0cp-1f, 0x1.fc8cd8p-1f, 0x1.fe2748p-1f, 0x1.ff02f8p-1f, 0x1.ff789p-1f, 0x1.ffb782p-1f, 0x1.ffd932p-1f,
     0x1.ffeb3cp-1f, 0x1.fffa0cp-1f, 0x1.fffe4cp-1f, 0x1.ffff82p-1f, 0x1.ffffdcp-1f, 0x1.fffff6p-1f, 0x1.fffffep-1f, 0x1p+0f,
     0, 0x1.2840b6p-3f, 0x1.12d35ap-2f, 0x1.7f327ap-2f, 0x1.dbe46ep-2f, 0x1.1596dep-1f, 0x1.377f78p-1f, 0x1.548062p-1f},
    {0x1.6eb948p-2f, 0x1.0c4d02p-2f, 0x1.88960cp-3f, 0x1.1f38dep-3f, 0x1.a445bcp-4f, 0x1.337a54p-4f, 0x1.c1e944p-5f, 0x1.49297cp-5f,
     0x1.e19944p-6f, 0x1.01c7fap-6f, 0x1.13f5eap-7f, 0x1.276c1p-8f, 0x1.3c4192p-9f, 0x1.528f36p-10f, 0x1.6a6f82p-11f, 0x1.83fedep-12f,
     0x1.9eed5p-13f, 0x1.db83aap-15f, 0x1.107968p-16f, 0x1.3842bep-18f, 0x1.65db56p-20f, 0x1.9a1c5ap-22f, 0x1.d5fea8p-24f, 0,
     0x1.4p+0f, 0x1.11b5dep+0f, 0x1.d43bdcp-1f, 0x1.908068p-1f, 0x1.569132p-1f, 0x1.250362p-1f, 0x1.f54146p-2f, 0x1.acbfp-2f},
    {-0x1.ca405ap-3f, -0x1.4f435ap-3f, -0x1.ea9116p-4f, -0x1.66e7ecp-4f, -0x1.0694bep-4f, -0x1.803772p-5f, -0x1.191948p-5f, -0x1.9b4ffap-6f,
     -0x1.2c4b02p-6f, -0x1.41784p-7f, -0x1.5823e6p-8f, -0x1.7068e4p-9f, -0x1.8a6412p-10f, -0x1.a63452p-11f, -0x1.c3fabap-12f, -0x1.e3dabp-13f,
     -0x1.ff5b8cp-14f, -0x1.250344p-15f, -0x1.4fcc56p-17f, -0x1.80d4c8p-19f, -0x1.b9061ep-21f, -0x1.f96c04p-23f, -0x1.219c8cp-24f, 0,
     -0x1.8ffe6ep-1f, -0x1.561fc6p-1f, -0x1.24a23p-1f, -0x1.f49adep-2f, -0x1.ac309ap-2f, -0x1.6e4004p-2f, -0x1.39452cp-2f, -0x1.0bf444p-2f},
    {0x1.7a6a08p-4f, 0x1.14d80cp-4f, 0x1.9513dcp-5f, 0x1.285b4ep-5f, 0x1.b1a248p-6f, 0x1.3d4048p-6f, 0x1.d0359cp-7f, 0x1.539f24p-7f,
     0x1.e4affap-8f, 0x1.036deep-8f, 0x1.15b8e6p-9f, 0x1.294e7p-10f, 0x1.3e45bap-11f, 0x1.54b7a2p-12f, 0x1.6cbedp-13f, 0x1.8677d4p-14f,
     0x1.8167dcp-15f, 0x1.b9ae9p-17f, 0x1.fa2dp-19f, 0x1.220b28p-20f, 0x1.4c653cp-22f, 0x1.7cee8ep-24f, 0x1.b48df2p-26f, 0,
     0x1.4cd81ep-2f, 0x1.1c7224p-2f, 0x1.e68f8ap-3f, 0x1.a029fap-3f, 0x1.63f528p-3f, 0x1.3076ap-3f, 0x1.046b5ep-3f, 0x1.bd7ea2p-4f},
    {-0x1.9957bep-6f, -0x1.2b6736p-6f, -0x1.b605fcp-7f, -0x1.406df2p-7f, -0x1.d4d3cp-8f, -0x1.56fbbap-8f, -0x1.f5d866p-9f, -0x1.6f25eep-9f,
     -0x1.cd865cp-10f, -0x1.ee086p-11f, -0x1.086cep-11f, -0x1.1b111ep-12f, -0x1.2f069ep-13f, -0x1.4464dcp-14f, -0x1.5b451cp-15f, -0x1.73c27ep-16f,
     -0x1.282be6p-17f, -0x1.536ad8p-19f, -0x1.84fa8p-21f, -0x1.bdc6dap-23f, -0x1.fede5cp-25f, -0x1.24bbb4p-26f, -0x1.4f79eap-28f, 0,
     -0x1.877496p-4f, -0x1.4a842cp-4f, -0x1.1a656ap-4f, -0x1.e2e02ap-5f, -0x1.9cecc8p-5f, -0x1.6123d4p-5f, -0x1.2e0696p-5f, -0x1.025144p-5f},
};
// clang-format on

// f(a) for a >= 0. The last two bits of the exponent of s = a + first and the first three of its mantissa tell the
// piece; t is the distance from where it begins.
template <int rows>
D5_INLINE Vector by_pieces(const float (&table)[rows][32], Vector a, float first) {
  constexpr int shift = 20;
  const Words s = bits_of(a + first), piece = s >> shift;
  const Vector t = a - (float_of(s & ~((1u << shift) - 1u)) - first);
  const auto coefficient = [&](int k) __attribute__((always_inline))->Vector {
    return _mm512_permutex2var_ps(_mm512_load_ps(table[k]), reinterpret_cast<__m512i>(piece),
                                  _mm512_load_ps(table[k] + 16));
  };
  Vector p = coefficient(rows - 1);
#pragma GCC unroll 4
  for (int k = rows - 2; k >= 0; --k) p = p * t + coefficient(k);
  return p;
}

D5_INLINE Vector tanh_of(Vector x) {
  return with_sign(by_pieces(tanh_pieces, at_most(absolute(x) * 0.77f, 7.0f), 0.5f), x);
}
D5_INLINE Vector erf_of(Vector x) { return with_sign(by_pieces(erf_pieces, at_most(absolute(x), 4.0f), 0.5f), x); }
// (1 + erf(x / sqrt 2)) / 2; the pieces are of its distance from 1/2.
D5_INLINE Vector normal_of(Vector x) {
  return with_sign(by_pieces(normal_pieces, at_most(absolute(x), 6.0f), 0.5f), x) + 0.5f;
}
D5_INLINE Vector expm1_below(Vector x) {  // x <= 0
  return -by_pieces(expm1_pieces, at_most(x * -0.8f, 14.0f), 1.0f);
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
D5_INLINE Vector expm1_below(Vector x) { return expm1_of(x); }

#endif

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

}  // namespace d5::onednn::own::D5_ISA
