/** @module Answers with bytes of strangers: to be saved, never to be shown or run by a browser. */

/** A media type as RFC 9110 §8.3.1 has it, without parameters. */
const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$/

/**
 * The content as a file (RFC 6266). Whatever it is, a browser saves it: it is not displayed, not guessed at, and may load nothing.
 * @param contentType as its sender says; one that is none becomes application/octet-stream
 * @param filename as its sender says; null: it has none
 */
export function download(content: Uint8Array, contentType: string, filename: string | null): Response {
  return new Response(new Uint8Array(content), {
    headers: {
      'content-type': MEDIA_TYPE.test(contentType) ? contentType : 'application/octet-stream',
      'content-disposition': disposition(filename),
      'x-content-type-options': 'nosniff',
      'content-security-policy': "sandbox; default-src 'none'",
      'cache-control': 'private, no-store',
    },
  })
}

/**
 * For a route's `detail`: that it answers with a file.
 * @param mediaType what it always is; left out: of any type
 */
export const fileAnswer = (description: string, mediaType = '*/*') => ({
  responses: { 200: { description, content: { [mediaType]: { schema: { type: 'string' as const, format: 'binary' } } } } },
})

/** RFC 8187 §3.2 for what is not plain ASCII, beside a form that everybody reads. */
function disposition(filename: string | null): string {
  if (filename === null || filename === '') return 'attachment'
  const plain = filename.replace(/[^ -~]|["\\%]/g, '_')
  const encoded = encodeURIComponent(filename.toWellFormed()).replace(
    /['()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return plain === filename
    ? `attachment; filename="${plain}"`
    : `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}
