/** @module Warns about settings of a service that sends mail, in the log of its start. `tassis doctor` finds them too. */

import { findHostnameWarnings } from '#features/setup/domains/dns-records.ts'
import type { Config } from '#platform/settings/config.ts'
import { localHostName } from '../settings.ts'

const LOOPBACK_PATTERN = /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\])$/

/** At most one sentence: links in sent mail contain the public URL and cannot be changed later. */
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

/** In delivery mode `capture`, in which no mail leaves the machine, only what works with no setting. */
export const findStartWarnings = (config: Config): readonly string[] => [
  ...(config.delivery === 'direct' ? findHostnameWarnings(config) : []),
  ...(config.delivery === 'capture' ? [] : findPublicUrlWarnings(config)),
  ...(config.inboundAddr === '' && config.delivery !== 'capture'
    ? ['TASSIS_INBOUND_ADDR is not set, so bounces and complaints that arrive by mail are lost; set it to 0.0.0.0:25']
    : []),
  ...(config.llmUrl !== '' && config.llmModel === ''
    ? [
        'TASSIS_LLM_URL is set but TASSIS_LLM_MODEL is not: no insights are written, and endpoints without their own model classify nothing',
      ]
    : []),
  ...(config.replicate === '' && config.node !== localHostName()
    ? ['TASSIS_NODE is set but TASSIS_REPLICATE is not: this is no node of a cluster, but a service of its own']
    : []),
]
