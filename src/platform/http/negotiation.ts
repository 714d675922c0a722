/**
 * @module What a response owes to the headers of its request: compression (RFC 9110 §12.5.3), and after a GET an entity
 * tag with 304 (§8.8.3 and §13.1.2). Only for JSON that is in memory as a whole, not for streams, downloads and files
 * that were made at build time.
 */
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { KiB } from '../units.ts'

/** Compressing less than this saves no packet. */
const MIN_COMPRESSED_BYTES = 1 * KiB
/** Brotli's best ratio for its time on JSON; higher levels take several times as long for some percent. */
const BROTLI_QUALITY = 4

const compressors = {
  br: (body: Uint8Array) =>
    promisify(brotliCompress)(body, { params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY } }),
  gzip: (body: Uint8Array) => promisify(gzip)(body),
}

export type Encoding = keyof typeof compressors

/** An entity tag; weak, because the same content may be compressed or not. */
export const createTag = (content: string | Uint8Array): string => `W/"${Bun.hash(content).toString(36)}"`

/** Whether the client has the content with this tag. */
export const isUnchanged = (headers: Headers, tag: string): boolean =>
  listItems(headers.get('if-none-match')).some((known) => known === tag || known === '*')

/**
 * Returns the response itself where nothing applies.
 * @param isList whether the response has rows. Other responses to a change, such as that of a send, are short: looking
 * at them would cost each send some microseconds
 */
export async function negotiate(request: Request, response: Response, isList: boolean): Promise<Response> {
  const { headers } = response
  const isJson = headers.get('content-type')?.startsWith('application/json') === true
  if (!isJson || request.method === 'HEAD' || headers.has('content-disposition') || headers.has('etag')) return response
  const { status } = response
  const isTagged = request.method === 'GET' && status === 200
  if (!isTagged && !isList) return response
  const accepted = chooseEncoding(request.headers)
  if (!isTagged && !accepted) return response
  const body = new Uint8Array(await response.arrayBuffer())
  if (isTagged) {
    const tag = createTag(body)
    headers.set('etag', tag)
    headers.append('vary', 'Accept-Encoding')
    if (isUnchanged(request.headers, tag)) {
      headers.delete('content-type')
      return new Response(null, { status: 304, headers })
    }
  }
  if (!accepted || body.length <= MIN_COMPRESSED_BYTES) return new Response(body, { status, headers })
  headers.set('content-encoding', accepted)
  return new Response(await compressors[accepted](body), { status, headers })
}

/** The best encoding that the client accepts. An encoding with `q=0` is refused. */
export function chooseEncoding(headers: Headers): Encoding | undefined {
  const accepted = listItems(headers.get('accept-encoding'))
    .filter((item) => !/;\s*q=0(?:\.0*)?$/i.test(item))
    .map((item) => item.split(';', 1)[0]?.trim().toLowerCase())
  return (['br', 'gzip'] as const).find((encoding) => accepted.includes(encoding))
}

/** The items of a list header, at most 20. */
const listItems = (header: string | null): string[] => header?.split(',', 20).map((item) => item.trim()) ?? []
