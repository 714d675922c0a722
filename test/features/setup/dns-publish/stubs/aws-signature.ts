/** @module Checks AWS Signature Version 4 from the request as it arrived, by its description. */
import { createHash, createHmac } from 'node:crypto'
import type { StubRequest } from './zone.ts'

const MAX_SKEW_MS = 300_000
const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()
const hash = (text: string): string => createHash('sha256').update(text).digest('hex')

export const AwsV4 = {
  /** Why the request is refused; undefined: the signature is right. */
  findProblem(
    request: StubRequest,
    keyId: string,
    secret: string,
    region: string,
    service: string,
    now: number,
  ): string | undefined {
    const { headers, method, path, query, body } = request
    const date = headers['x-amz-date'] ?? ''
    const [, year, month, day, hour, minute, second] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(date) ?? []
    const at = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`)
    if (!(Math.abs(at - now) < MAX_SKEW_MS)) return 'Signature expired'
    const signedNames = /SignedHeaders=([^,]+)/.exec(headers['authorization'] ?? '')?.[1]?.split(';') ?? []
    if (!signedNames.includes('host') || !signedNames.includes('x-amz-date')) return 'Host and date must be signed'
    const encode = (text: string) =>
      encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)
    const canonicalQuery = [...query]
      .map(([name, value]) => `${encode(name)}=${encode(value)}`)
      .sort()
      .join('&')
    const fields = signedNames.map((name) => `${name}:${headers[name]?.trim()}\n`).join('')
    const canonical = `${method}\n${path}\n${canonicalQuery}\n${fields}\n${signedNames.join(';')}\n${hash(body)}`
    const scope = `${year}${month}${day}/${region}/${service}/aws4_request`
    const key = hmac(hmac(hmac(hmac(`AWS4${secret}`, `${year}${month}${day}`), region), service), 'aws4_request')
    const signature = hmac(key, `AWS4-HMAC-SHA256\n${date}\n${scope}\n${hash(canonical)}`).toString('hex')
    const expected = `AWS4-HMAC-SHA256 Credential=${keyId}/${scope}, SignedHeaders=${signedNames.join(';')}, Signature=${signature}`
    return headers['authorization'] === expected ? undefined : 'The request signature we calculated does not match'
  },
}
