/**
 * @module Reads an uploaded logo. What is stored is drawn again from its pixels, so that no place where a photo was
 * taken, no second file behind the picture and no animation remains. Decoding runs outside of the main thread.
 */
import { createHash } from 'node:crypto'
import { AppError, invalid } from '#platform/errors.ts'
import { serverBusy } from '#platform/http/body.ts'
import type { MemoryBudget } from '#platform/process/memory-budget.ts'
import { KiB } from '#platform/units.ts'

export interface Logo {
  /** SHA-256 of the bytes, in base64url. */
  readonly hash: string
  readonly type: 'image/png' | 'image/jpeg'
  readonly width: number
  readonly height: number
  readonly bytes: Uint8Array
}

export const MAX_LOGO_BYTES = 100 * KiB
/** Of the upload, in each direction: a file of some KiB may have millions of pixels. */
export const MAX_UPLOAD_PIXELS = 2048
/** While it is drawn again: the decoded pixels, and a copy with another order of rows or a smaller size. */
const MEMORY_BYTES_PER_PIXEL = 8
/** Pixels in which it is shown at most; it is stored with twice as many, for sharp screens. */
const SHOWN = { width: 240, height: 96 } as const
const DENSITY = 2
const JPEG_QUALITY = 85

/** The first octets of what may be decoded: files of strangers reach fewer decoders. */
const SIGNATURES = {
  png: /^\x89PNG\r\n\x1a\n/,
  jpeg: /^\xff\xd8\xff/,
  webp: /^RIFF[\s\S]{4}WEBP/,
} as const
const SIGNATURE_BYTES = 12

const hasKnownSignature = (upload: Uint8Array): boolean => {
  const head = Buffer.from(upload.subarray(0, SIGNATURE_BYTES)).toString('latin1')
  return Object.values(SIGNATURES).some((signature) => signature.test(head))
}

/**
 * Reads the body of an upload. Throws 413 when it is too large, 422 when it is no PNG, JPEG or WebP, has too many pixels,
 * or is damaged, and 503 when no memory is left for its pixels.
 */
export async function readLogo(upload: unknown, memory: MemoryBudget): Promise<Logo> {
  if (!(upload instanceof Uint8Array) || upload.length === 0)
    throw invalid('body', 'Send the bytes of the picture as the body of the request.', 'invalid_logo')
  if (upload.length > MAX_LOGO_BYTES)
    throw new AppError(
      413,
      'logo_too_large',
      `The logo has ${Math.ceil(upload.length / KiB)} KiB; it must have at most ${MAX_LOGO_BYTES / KiB} KiB. Save it with fewer pixels: ${SHOWN.width * DENSITY} by ${SHOWN.height * DENSITY} are enough.`,
    )
  if (!hasKnownSignature(upload))
    throw invalid(
      'body',
      'The logo must be a PNG, JPEG or WebP file; save an SVG, PDF or GIF as PNG first.',
      'invalid_logo',
    )
  const { width, height, format } = await decode(() => new Bun.Image(upload).metadata())
  if (width > MAX_UPLOAD_PIXELS || height > MAX_UPLOAD_PIXELS)
    throw invalid(
      'body',
      `The logo has ${width} by ${height} pixels; it must have at most ${MAX_UPLOAD_PIXELS} in each direction.`,
      'invalid_logo',
    )
  const reservation = memory.reserve(width * height * MEMORY_BYTES_PER_PIXEL)
  if (!reservation) throw serverBusy()
  try {
    return await decode(() => redraw(upload, format === 'jpeg'))
  } finally {
    reservation.release()
  }
}

/** Mail programs on Windows do not show WebP, so it becomes a PNG. */
async function redraw(upload: Uint8Array, isJpeg: boolean): Promise<Logo> {
  const draw = () =>
    new Bun.Image(upload, { maxPixels: MAX_UPLOAD_PIXELS ** 2 }).resize(SHOWN.width * DENSITY, SHOWN.height * DENSITY, {
      fit: 'inside',
      withoutEnlargement: true,
    })
  let bytes = await (isJpeg ? draw().jpeg({ quality: JPEG_QUALITY }) : draw().png()).bytes()
  // A palette takes one byte a pixel at most.
  if (bytes.length > MAX_LOGO_BYTES) bytes = await draw().png({ palette: true }).bytes()
  const { width, height, format } = await new Bun.Image(bytes).metadata()
  const hash = createHash('sha256').update(bytes).digest('base64url')
  return { hash, type: format === 'jpeg' ? 'image/jpeg' : 'image/png', width, height, bytes }
}

async function decode<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const { code } = Object(error) as { readonly code?: unknown }
    if (typeof code !== 'string' || !code.startsWith('ERR_IMAGE_')) throw error
    throw invalid('body', 'The picture cannot be read; save it again as PNG or JPEG.', 'invalid_logo')
  }
}

/** The size in which a logo is shown, in CSS pixels. */
export function fitLogo({ width, height }: Pick<Logo, 'width' | 'height'>): { width: number; height: number } {
  const scale = Math.min(1, SHOWN.width / width, SHOWN.height / height)
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) }
}
