/** @module The screens of the navigation, with their icons and keys. */
import type { Session } from '#client/operator-api.ts'
import {
  IconBan,
  IconChartBar,
  IconFlask,
  IconHome,
  IconInbox,
  IconKey,
  IconLogs,
  IconMail,
  IconServer,
  IconSettings,
  IconSpeakerphone,
  IconTemplate,
  IconUsers,
  IconWebhook,
  IconWorld,
} from './icons.ts'
import type { Target } from './target.ts'

export interface NavigationItem {
  readonly label: string
  readonly to: NonNullable<Target['to']>
  readonly icon: typeof IconHome
  /** Pressed after `g`. */
  readonly key: string
  readonly isForOperators?: true
  /** Whether the role support may read it. */
  readonly isForSupport?: true
}

interface NavigationGroup {
  readonly label?: string
  readonly items: readonly NavigationItem[]
}

const NAVIGATION_GROUPS: readonly NavigationGroup[] = [
  { items: [{ label: 'Overview', to: '/', key: 'o', icon: IconHome, isForSupport: true }] },
  {
    label: 'Mail',
    items: [
      { label: 'Emails', to: '/emails', key: 'e', icon: IconMail, isForSupport: true },
      { label: 'Broadcasts', to: '/broadcasts', key: 'b', icon: IconSpeakerphone },
      { label: 'Inbound', to: '/inbound', key: 'i', icon: IconInbox },
      { label: 'Sandbox', to: '/sandbox', key: 'x', icon: IconFlask },
      { label: 'Analytics', to: '/analytics', key: 'a', icon: IconChartBar, isForSupport: true },
    ],
  },
  {
    label: 'Content',
    items: [
      { label: 'Templates', to: '/templates', key: 't', icon: IconTemplate },
      { label: 'Audience', to: '/audience', key: 'u', icon: IconUsers },
      { label: 'Suppressions', to: '/suppressions', key: 's', icon: IconBan, isForSupport: true },
    ],
  },
  {
    label: 'Setup',
    items: [
      { label: 'Domains', to: '/domains', key: 'd', icon: IconWorld, isForSupport: true },
      { label: 'Webhooks', to: '/webhooks', key: 'w', icon: IconWebhook },
      { label: 'Logs', to: '/logs', key: 'l', icon: IconLogs },
      { label: 'API keys', to: '/keys', key: 'p', icon: IconKey },
      { label: 'Settings', to: '/settings', key: 'c', icon: IconSettings, isForSupport: true },
      { label: 'Server', to: '/server', key: 'v', icon: IconServer, isForOperators: true, isForSupport: true },
    ],
  },
]

/** Whose session it is. */
export type Reader = Pick<Session, 'role'> & { readonly user: Pick<Session['user'], 'is_operator'> }

export const listNavigationGroups = ({ role, user }: Reader): readonly NavigationGroup[] =>
  NAVIGATION_GROUPS.map((group) => ({
    ...group,
    items: group.items.filter(
      ({ isForOperators, isForSupport }) =>
        (user.is_operator || !isForOperators) && (role !== 'support' || isForSupport === true),
    ),
  }))

export const listNavigation = (reader: Reader): readonly NavigationItem[] =>
  listNavigationGroups(reader).flatMap(({ items }) => items)
