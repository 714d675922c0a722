/** @module The screens of the navigation, with their keys. */

export interface NavigationItem {
  readonly label: string
  readonly to: string
  /** Pressed after `g`. */
  readonly key: string
  readonly isForOperators?: true
}

interface NavigationGroup {
  readonly label?: string
  readonly items: readonly NavigationItem[]
}

const NAVIGATION_GROUPS: readonly NavigationGroup[] = [
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
      { label: 'Server', to: '/server', key: 'v', isForOperators: true },
    ],
  },
]

export const listNavigationGroups = (isOperator: boolean): readonly NavigationGroup[] =>
  NAVIGATION_GROUPS.map((group) => ({
    ...group,
    items: group.items.filter(({ isForOperators }) => isOperator || isForOperators !== true),
  }))

export const listNavigation = (isOperator: boolean): readonly NavigationItem[] =>
  listNavigationGroups(isOperator).flatMap(({ items }) => items)
