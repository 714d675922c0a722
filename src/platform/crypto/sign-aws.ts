/** @module AWS Signature Version 4 of a request without further headers of `x-amz-`. Pure. */
import { createHash, createHmac } from 'node:crypto'
import { isoTime } from '../http/envelope.ts'

type SignedRequest = Readonly<Record<'method' | 'url' | 'body', string>>

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()

/** @param scope region and service; the query of the URL must be encoded */
export function signAws({ method, url, body }: SignedRequest, id: string, secret: string, scope: string, now: number) {
  const { host, pathname, search } = new URL(url)
  const time = isoTime(now).replace(/[-:]|\.\d+/g, '')
  const fields = `host:${host}\nx-amz-date:${time}\n`
  const query = search.slice(1).split('&').sort().join('&')
  const canonical = [method, pathname, query, fields, 'host;x-amz-date', sha256(body)].join('\n')
  const day = `${time.slice(0, 8)}/${scope}/aws4_request`
  const key = day.split('/').reduce<string | Buffer>(hmac, `AWS4${secret}`)
  const signature = hmac(key, ['AWS4-HMAC-SHA256', time, day, sha256(canonical)].join('\n')).toString('hex')
  const credential = `Credential=${id}/${day}, SignedHeaders=host;x-amz-date`
  return { 'x-amz-date': time, authorization: `AWS4-HMAC-SHA256 ${credential}, Signature=${signature}` }
}
