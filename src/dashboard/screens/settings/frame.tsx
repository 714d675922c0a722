/** @module The frame of a screen below Settings: heading, links to the other ones. On a phone these are tabs. */
import { Flex, Stack } from '@mantine/core'
import { useMediaQuery } from '@mantine/hooks'
import { useRouterState } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useSession } from '../../api/session.tsx'
import { AppLink } from '../../parts/links.tsx'
import { AreaNavigation, Page } from '../../parts/page.tsx'
import { SUPPORT_PLACES } from '../../parts/places.ts'
import type { Target } from '../../parts/target.ts'

const SETTINGS = [
  { label: 'Account', to: '/settings' },
  { label: 'Team', to: '/settings/team' },
  { label: 'Your sign-in', to: '/settings/profile' },
  { label: 'Streams', to: '/settings/streams' },
  { label: 'Wording', to: '/settings/wording' },
  { label: 'Sub-accounts', to: '/settings/accounts' },
  { label: 'Plan', to: '/settings/plan' },
  { label: 'Audit log', to: '/settings/audit' },
  { label: 'Privacy and deletion', to: '/settings/privacy' },
] as const

const listSettings = (role: string) => SETTINGS.filter(({ to }) => role !== 'support' || SUPPORT_PLACES.includes(to))

const NARROW = '(max-width: 61.99em)'

interface SettingsPageProps {
  readonly title: string
  readonly status?: ReactNode
  readonly description?: ReactNode
  readonly action?: ReactNode
  /** The list that this screen is about one of. */
  readonly list?: { readonly label: string; readonly to: NonNullable<Target['to']> }
  readonly children: ReactNode
}

export function SettingsPage({ list, children, ...page }: SettingsPageProps) {
  const isNarrow = useMediaQuery(NARROW, undefined, { getInitialValueInEffect: false })
  const path = useRouterState({ select: ({ location }) => location.pathname })
  const links = listSettings(useSession().role)
  return (
    <Flex gap="xl">
      {!isNarrow && <SettingsNavigation path={path} links={links} />}
      <div style={{ flex: 1, minWidth: 0 }}>
        <Page {...page} {...(list && { back: { label: list.label, target: { to: list.to } } })}>
          {isNarrow && !list && <AreaNavigation label="Settings" links={links} />}
          <Stack gap="lg">{children}</Stack>
        </Page>
      </div>
    </Flex>
  )
}

interface SettingsNavigationProps {
  readonly path: string
  readonly links: ReturnType<typeof listSettings>
}

const SettingsNavigation = ({ path, links }: SettingsNavigationProps) => (
  <nav aria-label="Settings" style={{ flex: '0 0 11rem' }}>
    {links.map(({ label, to }) => {
      const isHere = path === to || (to !== '/settings' && path.startsWith(`${to}/`))
      return (
        <AppLink
          key={to}
          to={to}
          className="nav-link"
          // Otherwise it counts as the page of all screens below it.
          activeOptions={{ exact: to === '/settings' }}
          {...(isHere && { 'aria-current': 'page' })}
        >
          {label}
        </AppLink>
      )
    })}
  </nav>
)
