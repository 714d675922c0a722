/** @module The screens of the navigation, with their keys. */

export interface NavigationItem {
  readonly label: string
  readonly to: string
  /** Pressed after `g`. */
  readonly key: string
}

interface NavigationGroup {
  readonly label?: string
  readonly items: readonly NavigationItem[]
}

export const NAVIGATION_GROUPS: readonly NavigationGroup[] = [
  { items: [{ label: 'Overview', to: '/', key: 'o' }] },
  {
    label: 'Mail',
    items: [
      { label: 'Emails', to: '/emails', key: 'e' },
      { label: 'Broadcasts', to: '/broadcasts', key: 'b' },
      { label: 'Inbound', to: '/inbound', key: 'i' },
      { label: 'Sandbox', to: '/sandbox', key: 'x' },
      { label: 'Analytics', to: '/analytics', key: 'a' },
    ],
  },
  {
    label: 'Content',
    items: [
      { label: 'Templates', to: '/templates', key: 't' },
      { label: 'Audience', to: '/audience', key: 'u' },
      { label: 'Suppressions', to: '/suppressions', key: 's' },
    ],
  },
  {
    label: 'Setup',
    items: [
      { label: 'Domains', to: '/domains', key: 'd' },
      { label: 'Webhooks', to: '/webhooks', key: 'w' },
      { label: 'API keys', to: '/keys', key: 'p' },
      { label: 'Settings', to: '/settings', key: 'c' },
      { label: 'Server', to: '/server', key: 'v' },
    ],
  },
]

export const NAVIGATION: readonly NavigationItem[] = NAVIGATION_GROUPS.flatMap(({ items }) => items)
