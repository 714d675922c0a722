/**
 * @module Files that are made at build time, as responses: compressed, with an entity tag. The executable contains them;
 * a run from sources makes them at the first request.
 */
import { brotliCompressSync, constants, gunzipSync, gzipSync } from 'node:zlib'
import { unknownRoute } from './error-response.ts'
import { chooseEncoding, createTag, type Encoding, isUnchanged } from './negotiation.ts'
import { once } from './route-table.ts'

export interface BuiltFile {
  /** Unique, with an extension that tells its type. */
  readonly name: string
  readonly content: string | Uint8Array
}

type ReadContent = () => Uint8Array | Promise<Uint8Array>

interface EncodedFile extends Readonly<Record<Encoding, ReadContent>> {
  readonly tag: string
}

export type BuiltFiles = ReadonlyMap<string, EncodedFile>

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  json: 'application/json',
  woff2: 'font/woff2',
  md: 'text/markdown; charset=utf-8',
  txt: 'text/plain; charset=utf-8',
}

/** The files of a run from sources. */
export const compressWhenRead = (files: readonly BuiltFile[]): BuiltFiles =>
  new Map(
    files.map(({ name, content }) => [
      name,
      {
        tag: createTag(content),
        br: once(() => compress(content, 'br', { isQuick: true })),
        gzip: once(() => compress(content, 'gzip', { isQuick: true })),
      },
    ]),
  )

/** The files in the executable, each with its tag and the paths of the content in both encodings. */
export const openEmbedded = (
  files: readonly (readonly [name: string, tag: string, br: string, gzip: string])[],
): BuiltFiles =>
  new Map(
    files.map(([name, tag, br, gzip]) => [
      name,
      { tag, br: () => Bun.file(br).bytes(), gzip: () => Bun.file(gzip).bytes() },
    ]),
  )

/** Compresses as well as the encoding can, which takes seconds, or quickly. */
export function compress(content: BuiltFile['content'], encoding: Encoding, { isQuick = false } = {}): Uint8Array {
  if (encoding === 'gzip') return gzipSync(content, { level: isQuick ? 1 : 9 })
  return brotliCompressSync(content, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: isQuick ? 4 : constants.BROTLI_MAX_QUALITY,
      [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
      [constants.BROTLI_PARAM_LGWIN]: 24,
    },
  })
}

/**
 * The response with a file in the best encoding that the client accepts; 304 when it has the file.
 * @param headers further ones @throws AppError 404: there is no such file, as after an upgrade
 */
export async function sendBuiltFile(
  files: BuiltFiles,
  name: string,
  request: Request,
  headers: Readonly<Record<string, string>>,
): Promise<Response> {
  const file = files.get(name)
  if (!file) throw unknownRoute()
  const common = { ...headers, etag: file.tag, vary: 'accept-encoding' }
  if (isUnchanged(request.headers, file.tag)) return new Response(null, { status: 304, headers: common })
  const encoding = chooseEncoding(request.headers)
  const encoded = await file[encoding ?? 'gzip']()
  return new Response(encoding ? encoded : gunzipSync(encoded), {
    headers: {
      ...common,
      'content-type': CONTENT_TYPES[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream',
      ...(encoding && { 'content-encoding': encoding }),
    },
  })
}
