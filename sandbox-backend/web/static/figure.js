// SPDX-License-Identifier: Apache-2.0
// Pictures that a sandbox made. Its bytes decide what a picture is: PNG or JPEG, and not too large
// once it is unpacked. This file is also part of the figure view of cubby-mcp.

const PIXELS_MAX = 25e6;
const BYTES_MAX = 16e6;

// The bytes of a text in base64, or null.
export function bytesOf(base64) {
  try {
    return Uint8Array.from(atob(base64), c => c.charCodeAt(0));
  } catch {
    return null;
  }
}

function pngSize(view) {
  const begin = [0x89504e47, 0x0d0a1a0a, 13, 0x49484452];
  if (view.byteLength < 33 || begin.some((word, i) => view.getUint32(4 * i) !== word)) return null;
  return ['image/png', view.getUint32(16), view.getUint32(20)];
}

// The first frame header gives the size. The segments before it are skipped.
function jpegSize(view) {
  if (view.byteLength < 4 || view.getUint16(0) !== 0xffd8) return null;
  for (let at = 2; at + 9 < view.byteLength;) {
    const marker = view.getUint8(at + 1);
    if (view.getUint8(at) !== 0xff || marker < 0xc0 || marker === 0xda) return null;
    const length = marker === 0xff ? -1 : view.getUint16(at + 2);
    if (marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) return ['image/jpeg', view.getUint16(at + 7), view.getUint16(at + 5)];
    at += 2 + length;
  }
  return null;
}

// { type, width, height } of a picture that may be shown; else null.
export function pictureOf(bytes) {
  if (!bytes || bytes.byteLength > BYTES_MAX) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [type, width, height] = pngSize(view) ?? jpegSize(view) ?? [];
  return type && width && height && width * height <= PIXELS_MAX ? { type, width, height } : null;
}
