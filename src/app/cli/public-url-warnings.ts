/** @module Warns about an unusable public URL: links in sent mail contain it and cannot be changed later. */
import type { Config } from '#platform/settings/config.ts'

const LOOPBACK_PATTERN = /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\])$/

/** Returns at most one sentence. */
export function findPublicUrlWarnings({ publicUrl }: Pick<Config, 'publicUrl'>): readonly string[] {
  const { protocol, hostname } = new URL(publicUrl)
  const isLoopback = LOOPBACK_PATTERN.test(hostname)
  if (protocol === 'https:' && !isLoopback) return []
  const problem = isLoopback
    ? 'works only on this machine'
    : 'is not https: mail clients offer no one-click unsubscribe, and links can be read and changed in transit'
  return [
    `TASSIS_PUBLIC_URL is ${publicUrl}, which ${problem}. Every unsubscribe, confirmation and tracking link contains it, and sent mail cannot be changed: set it to the https URL of this service, such as https://mail.example.com.`,
  ]
}
