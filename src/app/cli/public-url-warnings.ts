/**
 * @module What is wrong with the public URL of a service that sends mail: it stands in links that cannot be changed
 * afterwards.
 */
import type { Config } from '#platform/config.ts'

const LOOPBACK_PATTERN = /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\])$/

/** At most one sentence. */
export function findPublicUrlWarnings({
  publicUrl,
  httpAddr,
}: Pick<Config, 'publicUrl' | 'httpAddr'>): readonly string[] {
  const { protocol, hostname } = new URL(publicUrl)
  const isLoopback = LOOPBACK_PATTERN.test(hostname)
  if (protocol === 'https:' && !isLoopback) return []
  const problem =
    publicUrl === `http://${httpAddr}`
      ? 'is not set'
      : isLoopback
        ? `is ${publicUrl}, which leads nobody but this machine here`
        : `is ${publicUrl}, which is not https: mail programs offer no one-click unsubscribe, and links can be read and changed on their way`
  return [
    `TASSIS_PUBLIC_URL ${problem}. It stands in each link to unsubscribe, to confirm and to track, and mail cannot be changed afterwards: set it to the https URL of this service, such as https://mail.example.com.`,
  ]
}
