/** @module Parses the URL of a place for backups in S3-compatible storage. */

export interface S3Place {
  readonly endpoint: string
  readonly bucket: string
  /** Beginning of the names of all objects. */
  readonly prefix: string
  readonly region: string
}

const S3_URL = /^(https?:\/\/[^/?#@\s]+)\/([\w.-]+)((?:\/[\w.-]+)*)(?:\?region=([\w-]+))?$/

/** Undefined for a URL without a bucket, with credentials, or of another form. */
export function parseS3Url(url: string): S3Place | undefined {
  const [, endpoint = '', bucket = '', path = '', region = 'us-east-1'] = S3_URL.exec(url) ?? []
  return bucket === '' ? undefined : { endpoint, bucket, prefix: path.slice(1) || 'tassis', region }
}
