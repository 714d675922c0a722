/**
 * @module An S3-compatible server in memory: puts (also in parts), reads, lists and deletes objects of one bucket, and
 * checks the signature of each request (AWS Signature Version 4).
 */
import { createHash, createHmac } from 'node:crypto'

export interface S3Stub extends AsyncDisposable {
  readonly url: string
  readonly bucket: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly objects: Map<string, Uint8Array>
  /** Method and key of each request. */
  readonly requests: string[]
  /** A status with which requests are refused; undefined: they are served. */
  failure: number | undefined
  /** The code of these responses; `InternalError` unless a test sets another. */
  failureCode: string
}

const hmac = (key: string | Uint8Array, text: string): Uint8Array => createHmac('sha256', key).update(text).digest()
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)

/** Returns the signature that a request must have, by its own Authorization header. */
function computeSignature(request: Request, secret: string, authorization: string): string | undefined {
  const [, scope = '', signed = ''] = /Credential=[^/]+\/([^,\s]+),\s*SignedHeaders=([^,\s]+)/.exec(authorization) ?? []
  const [date = '', region = '', service = ''] = scope.split('/')
  const url = new URL(request.url)
  const query = [...url.searchParams]
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .sort()
    .join('&')
  const headers = signed.split(';').map((name) => `${name}:${(request.headers.get(name) ?? '').trim()}\n`)
  const payload = request.headers.get('x-amz-content-sha256') ?? ''
  const canonical = [request.method, url.pathname, query, headers.join(''), signed, payload].join('\n')
  const time = request.headers.get('x-amz-date') ?? ''
  const toSign = ['AWS4-HMAC-SHA256', time, scope, sha256(canonical)].join('\n')
  const key = ['aws4_request'].reduce(hmac, hmac(hmac(hmac(`AWS4${secret}`, date), region), service))
  return Buffer.from(hmac(key, toSign)).toString('hex')
}

const PAGE_SIZE = 3

export function startS3Stub(): S3Stub {
  const bucket = 'backups'
  const accessKeyId = 'TESTACCESSKEY'
  const secretAccessKey = 'test/secret+key'
  const objects = new Map<string, Uint8Array>()
  const requests: string[] = []
  const uploads = new Map<string, Map<number, Uint8Array>>()
  const xml = (body: string): Response =>
    new Response(`<?xml version="1.0" encoding="UTF-8"?>${body}`, { headers: { 'content-type': 'application/xml' } })
  const refuse = (status: number, code: string): Response =>
    new Response(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`, {
      status,
      headers: { 'content-type': 'application/xml' },
    })
  const stub = { failure: undefined as number | undefined, failureCode: 'InternalError' }

  const list = (url: URL): Response => {
    const prefix = url.searchParams.get('prefix') ?? ''
    const after = url.searchParams.get('continuation-token') ?? ''
    const keys = [...objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort()
    const page = keys.slice(0, PAGE_SIZE)
    const isTruncated = keys.length > page.length
    const contents = page.map((key) => `<Contents><Key>${key}</Key><Size>${objects.get(key)?.length}</Size></Contents>`)
    const next = isTruncated ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : ''
    return xml(
      `<ListBucketResult><Name>${bucket}</Name><Prefix>${prefix}</Prefix><KeyCount>${page.length}</KeyCount><MaxKeys>${PAGE_SIZE}</MaxKeys><IsTruncated>${isTruncated}</IsTruncated>${contents.join('')}${next}</ListBucketResult>`,
    )
  }

  const put = async (request: Request, url: URL, key: string): Promise<Response> => {
    const bytes = new Uint8Array(await request.arrayBuffer())
    const upload = url.searchParams.get('uploadId')
    if (upload === null) objects.set(key, bytes)
    else uploads.get(upload)?.set(Number(url.searchParams.get('partNumber')), bytes)
    return new Response(null, { headers: { etag: `"${sha256(Buffer.from(bytes).toString('latin1'))}"` } })
  }

  const post = async (request: Request, url: URL, key: string): Promise<Response> => {
    await request.text()
    if (url.searchParams.has('uploads')) {
      const id = String(uploads.size + 1)
      uploads.set(id, new Map())
      return xml(
        `<InitiateMultipartUploadResult><Bucket>${bucket}</Bucket><Key>${key}</Key><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
      )
    }
    const parts = uploads.get(url.searchParams.get('uploadId') ?? '') ?? new Map<number, Uint8Array>()
    objects.set(key, Buffer.concat([...parts].sort(([a], [b]) => a - b).map(([, bytes]) => bytes)))
    return xml(`<CompleteMultipartUploadResult><Key>${key}</Key><ETag>"x"</ETag></CompleteMultipartUploadResult>`)
  }

  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const url = new URL(request.url)
      const [, requested, ...rest] = url.pathname.split('/')
      const key = decodeURIComponent(rest.join('/'))
      requests.push(`${request.method} ${key}`)
      if (stub.failure !== undefined) return refuse(stub.failure, stub.failureCode)
      const authorization = request.headers.get('authorization') ?? ''
      const [, signature] = /Signature=([0-9a-f]{64})/.exec(authorization) ?? []
      if (!authorization.includes(`Credential=${accessKeyId}/`)) return refuse(403, 'InvalidAccessKeyId')
      if (signature !== computeSignature(request, secretAccessKey, authorization))
        return refuse(403, 'SignatureDoesNotMatch')
      if (requested !== bucket) return refuse(404, 'NoSuchBucket')
      if (key === '') return list(url)
      if (request.method === 'PUT') return put(request, url, key)
      if (request.method === 'POST') return post(request, url, key)
      const stored = objects.get(key)
      if (request.method === 'DELETE') {
        objects.delete(key)
        return new Response(null, { status: 204 })
      }
      if (!stored) return refuse(404, 'NoSuchKey')
      return new Response(request.method === 'HEAD' ? null : stored, {
        headers: { 'content-length': String(stored.length), etag: '"x"' },
      })
    },
  })
  return Object.assign(stub, {
    url: `http://127.0.0.1:${server.port}`,
    bucket,
    accessKeyId,
    secretAccessKey,
    objects,
    requests,
    [Symbol.asyncDispose]: () => server.stop(true),
  })
}
