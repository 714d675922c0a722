/** @module The files of the dashboard as responses: compressed, and cached by browsers permanently. */
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { bundleDashboard } from './bundle.ts'
import { type EmbeddedBundle, type Encoding, embeddedBundle } from './embedded.ts'

/** Content of a file in one encoding. */
type ReadEncoded = (encoding: Encoding) => Uint8Array | Blob

export interface DashboardAssets {
  readonly script: string
  readonly style: string
  readonly files: ReadonlyMap<string, ReadEncoded>
}

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
}

/** Reads the bundle of the executable, or bundles the sources of the clone. */
export async function loadDashboardAssets(): Promise<DashboardAssets> {
  if (embeddedBundle) return fromExecutable(embeddedBundle)
  // `import.meta.dir` is src/app/dashboard.
  const { script, style, files } = await bundleDashboard(`${import.meta.dir}/../../dashboard`)
  return { script, style, files: new Map(files.map(({ name, content }) => [name, compressOnce(content)])) }
}

const fromExecutable = ({ script, style, files }: EmbeddedBundle): DashboardAssets => ({
  script,
  style,
  files: new Map(files.map(({ name, paths }) => [name, (encoding: Encoding) => Bun.file(paths[encoding])])),
})

function compressOnce(content: Uint8Array): ReadEncoded {
  const encoded = new Map<Encoding, Uint8Array>([['identity', content]])
  return (encoding) => {
    const known = encoded.get(encoding)
    if (known) return known
    const compressed = compress(content, encoding, QUICK_QUALITY)
    encoded.set(encoding, compressed)
    return compressed
  }
}

/** For files that are compressed at their first request: at the best quality that takes seconds. */
const QUICK_QUALITY = 4

/** Compresses as well as the encoding can, or with less effort. @param quality of brotli, 0 to 11 */
export function compress(
  content: Uint8Array,
  encoding: Encoding,
  quality: number = constants.BROTLI_MAX_QUALITY,
): Uint8Array {
  if (encoding === 'identity') return content
  if (encoding === 'gzip') return gzipSync(content, { level: 9 })
  return brotliCompressSync(content, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: quality,
      [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
      [constants.BROTLI_PARAM_LGWIN]: 24,
    },
  })
}

/** The best encoding that the client accepts (RFC 9110 §12.5.3); a weight of 0 excludes one. */
export function chooseEncoding(acceptEncoding: string | null): Encoding {
  const accepted = new Set(
    (acceptEncoding ?? '').split(',').flatMap((part) => {
      const [name = '', weight = ''] = part.split(';')
      return /^\s*q=0(\.0*)?\s*$/.test(weight) ? [] : [name.trim().toLowerCase()]
    }),
  )
  return accepted.has('br') ? 'br' : accepted.has('gzip') ? 'gzip' : 'identity'
}

/** The response with a file of the bundle; undefined: the bundle has no such file, as after an upgrade. */
export function toAssetResponse(assets: DashboardAssets, name: string, acceptEncoding: string | null) {
  const read = assets.files.get(name)
  if (!read) return undefined
  const encoding = chooseEncoding(acceptEncoding)
  return new Response(read(encoding), {
    headers: {
      'content-type': CONTENT_TYPES[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream',
      ...(encoding !== 'identity' && { 'content-encoding': encoding }),
      vary: 'accept-encoding',
      // The name contains a hash of the content.
      'cache-control': 'public, max-age=31536000, immutable',
      'cross-origin-resource-policy': 'same-origin',
    },
  })
}
