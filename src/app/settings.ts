/**
 * @module Joins the settings that the platform and the features declare, and reads them. Add a new setting to the
 * `settings.ts` of its feature, and a new group of settings also to the list here.
 */
import { contactListSettings } from '#features/audience/contact-lists/settings.ts'
import { signupFormSettings } from '#features/audience/signup-forms/settings.ts'
import {
  abusePlanSettings,
  planSettings,
  trackingPlanSettings,
  workSettings,
} from '#features/core/accounts/settings.ts'
import { languageModelSettings } from '#features/core/app/settings.ts'
import { mcpSettings } from '#features/drop-in/mcp/settings.ts'
import { submissionSettings } from '#features/drop-in/submission/settings.ts'
import { retentionSettings } from '#features/lifecycle/retention/settings.ts'
import { billingSettings } from '#features/people/billing/settings.ts'
import { teamSettings } from '#features/people/team/settings.ts'
import { feedbackLoopSettings } from '#features/receiving/complaints/settings.ts'
import { inboundSettings } from '#features/receiving/inbound/settings.ts'
import { rawMailSettings } from '#features/receiving/received/settings.ts'
import { abuseRateSettings, abuseWatchSettings } from '#features/reporting/abuse/settings.ts'
import { acceptanceSettings, emailLimitSettings } from '#features/sending/accept/settings.ts'
import { broadcastSettings } from '#features/sending/broadcasts/settings.ts'
import { captureSettings } from '#features/sending/capture/settings.ts'
import { deliveryModeSettings, deliverySettings, requireRelayUrl } from '#features/sending/delivery/settings.ts'
import { systemMailSettings } from '#features/sending/system-mail/settings.ts'
import { trackingSettings } from '#features/sending/tracking/settings.ts'
import { transportSecuritySettings } from '#features/sending/transport-security/settings.ts'
import { certificateSettings } from '#features/setup/certificates/settings.ts'
import { domainSettings } from '#features/setup/domains/settings.ts'
import { webhookSettings } from '#features/webhooks/webhooks/settings.ts'
import { type LoadedConfig, readSettings, type Settings } from '#platform/config.ts'
import { diskSettings, networkSettings, processSettings, requestSettings, serviceSettings } from '#platform/settings.ts'
import { backupSettings } from './backup/settings.ts'
import { doctorSettings } from './doctor/settings.ts'
import { metricsSettings } from './metrics/settings.ts'

export interface SettingGroup {
  /** Heading in docs/configuration.md, under which all groups of a topic are listed. */
  readonly topic: string
  readonly settings: Settings
}

/** All settings, in the order in which they are checked and in which `tassis config` lists them. */
export const SETTING_GROUPS: readonly SettingGroup[] = [
  { topic: 'Service', settings: serviceSettings },
  { topic: 'Certificates', settings: certificateSettings },
  { topic: 'Delivery', settings: deliveryModeSettings },
  { topic: 'Network', settings: networkSettings },
  { topic: 'Service', settings: processSettings },
  { topic: 'Emails', settings: acceptanceSettings },
  { topic: 'Delivery', settings: deliverySettings },
  { topic: 'Delivery', settings: transportSecuritySettings },
  { topic: 'Delivery', settings: domainSettings },
  { topic: 'Service', settings: requestSettings },
  { topic: 'Emails', settings: emailLimitSettings },
  { topic: 'Accounts and plans', settings: workSettings },
  { topic: 'Webhooks', settings: webhookSettings },
  { topic: 'Open and click tracking', settings: trackingSettings },
  // Before the sizes of retention, whose defaults are shares of the disk.
  { topic: 'Service', settings: diskSettings },
  { topic: 'Retention', settings: retentionSettings },
  { topic: 'Open and click tracking', settings: trackingPlanSettings },
  { topic: 'Inbound mail', settings: inboundSettings },
  { topic: 'Inbound mail', settings: rawMailSettings },
  { topic: 'SMTP submission', settings: submissionSettings },
  { topic: 'Language model', settings: languageModelSettings },
  { topic: 'Contact lists', settings: contactListSettings },
  { topic: 'Signup forms', settings: signupFormSettings },
  { topic: 'Broadcasts', settings: broadcastSettings },
  { topic: 'Captured mail', settings: captureSettings },
  { topic: 'Service', settings: metricsSettings },
  { topic: 'Accounts and plans', settings: planSettings },
  { topic: 'Billing', settings: billingSettings },
  { topic: 'Mail of the service', settings: systemMailSettings },
  { topic: 'Checks of the operator', settings: doctorSettings },
  { topic: 'Users', settings: teamSettings },
  { topic: 'Abuse', settings: abusePlanSettings },
  { topic: 'Abuse', settings: abuseRateSettings },
  { topic: 'Abuse', settings: feedbackLoopSettings },
  { topic: 'Abuse', settings: abuseWatchSettings },
  { topic: 'Other clients', settings: mcpSettings },
  { topic: 'Backup', settings: backupSettings },
]

/**
 * Reads all settings, by default from the environment of the process. Throws ConfigError for the first invalid value
 * and for unknown variables or keys.
 */
export function loadConfig(environment?: Record<string, string | undefined>): LoadedConfig {
  const settings: Settings = Object.assign({}, ...SETTING_GROUPS.map((group) => group.settings))
  const loaded = readSettings(settings, environment)
  requireRelayUrl(loaded.config)
  return loaded
}
