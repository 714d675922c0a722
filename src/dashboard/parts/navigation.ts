/** @module The screens of the navigation, with their keys. */

export interface NavigationItem {
  readonly label: string
  readonly to: string
  /** Pressed after `g`. */
  readonly key: string
}

export const NAVIGATION: readonly NavigationItem[] = [
  { label: 'Overview', to: '/', key: 'o' },
  { label: 'Emails', to: '/emails', key: 'e' },
  { label: 'Domains', to: '/domains', key: 'd' },
]
