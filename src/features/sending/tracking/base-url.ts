/** @module The base URL of tracked links. */

/** The public URL without trailing slashes. */
export const trimTrailingSlashes = (publicUrl: string): string => publicUrl.replace(/(?<!\/)\/+$/, '')

/**
 * The base of tracked links: the tracking host of the sending domain with the scheme and port of the public URL, else
 * the public URL itself.
 * @param host verified tracking host; null if there is none
 */
export function trackingBaseUrl(publicUrl: string, host: string | null): string {
  if (host === null) return trimTrailingSlashes(publicUrl)
  const { protocol, port } = new URL(publicUrl)
  return `${protocol}//${host}${port === '' ? '' : `:${port}`}`
}
