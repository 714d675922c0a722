/** @module Makes requests of what programs have: files and streams as attachments, React elements as bodies. */
import type { SendEmailRequest, SendEmailRequestAttachment } from './api.ts'

/** Bytes, a `File` or other `Blob`, a stream, or base64. */
export type AttachmentContent =
  | string
  | Uint8Array
  | ArrayBuffer
  | Blob
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>

/** A file to attach. */
export interface AttachmentInput extends Omit<SendEmailRequestAttachment, 'content'> {
  /** Bytes, a `File` or other `Blob`, a web stream or a stream of Node; a string is base64. */
  readonly content: AttachmentContent
}

/** An email to send. */
export interface EmailInput extends Omit<SendEmailRequest, 'attachments'> {
  readonly attachments?: readonly AttachmentInput[] | null | undefined
  /** A React element that becomes `html_body`, and `text_body` unless you set it. Needs the package @react-email/render. */
  readonly react?: unknown
}

/**
 * Reads a file to attach; only in Node, Bun and Deno.
 *
 *     attachments: [await attachFile('./invoice.pdf')]
 */
export async function attachFile(
  path: string | URL,
  fields: Partial<Omit<AttachmentInput, 'content'>> = {},
): Promise<AttachmentInput> {
  const [name = ''] = (typeof path === 'string' ? path : decodeURIComponent(path.pathname)).split(/[\\/]/).slice(-1)
  return { filename: name, ...fields, content: await readBytes(path) }
}

async function readBytes(path: string | URL): Promise<Uint8Array> {
  let readFile: (path: string | URL) => Promise<Uint8Array>
  try {
    // Loaded only here, and left alone by bundlers, because browsers have no such module.
    ;({ readFile } = await import(/* webpackIgnore: true */ /* @vite-ignore */ 'node:fs/promises'))
  } catch (cause) {
    throw new Error('There are no files here: pass bytes or a Blob as the content of an attachment.', { cause })
  }
  return readFile(path)
}

/** The email as the API takes it. */
export async function toEmailRequest({ react, attachments, ...email }: EmailInput): Promise<SendEmailRequest> {
  return {
    ...email,
    ...(react !== undefined && (await renderBodies(react, email))),
    ...(attachments && { attachments: await Promise.all(attachments.map(encodeAttachment)) }),
  }
}

async function encodeAttachment({ content, ...attachment }: AttachmentInput): Promise<SendEmailRequestAttachment> {
  const type = content instanceof Blob ? content.type : ''
  return {
    ...(type !== '' && { content_type: type }),
    ...attachment,
    content: typeof content === 'string' ? content : encodeBase64(await collectBytes(content)),
  }
}

async function collectBytes(content: Exclude<AttachmentContent, string>): Promise<Uint8Array> {
  if (content instanceof Uint8Array) return content
  const isWebBody = content instanceof ArrayBuffer || content instanceof Blob || content instanceof ReadableStream
  return isWebBody ? new Uint8Array(await new Response(content).arrayBuffer()) : joinChunks(content)
}

/** The octets of a stream of Node. */
async function joinChunks(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array<ArrayBuffer>[] = []
  for await (const chunk of chunks) parts.push(new Uint8Array(chunk))
  return new Uint8Array(await new Blob(parts).arrayBuffer())
}

/** Octets that are encoded in one step, because a call takes only so many arguments; a multiple of 3. */
const STEP = 3 * 8192

function encodeBase64(bytes: Uint8Array): string {
  const parts: string[] = []
  for (let start = 0; start < bytes.length; start += STEP)
    parts.push(btoa(String.fromCharCode(...bytes.subarray(start, start + STEP))))
  return parts.join('')
}

async function renderBodies(element: unknown, { html_body: html, text_body: text }: SendEmailRequest) {
  if (typeof html === 'string') throw new TypeError('An email has either `react` or `html_body`.')
  const render = await loadRender()
  return {
    html_body: await render(element),
    ...(typeof text !== 'string' && { text_body: await render(element, { plainText: true }) }),
  }
}

async function loadRender() {
  try {
    const { render } = await import('@react-email/render')
    return render as (element: unknown, options?: { readonly plainText?: boolean }) => Promise<string>
  } catch (cause) {
    throw new Error('`react` needs a package that is not installed: npm install @react-email/render', { cause })
  }
}
