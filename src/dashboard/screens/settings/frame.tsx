/** @module The frame of a screen below Settings: heading, links to the other ones. */
import type { ComponentProps } from 'react'
import { useSession } from '../../api/session.tsx'
import { AreaNavigation, Page } from '../../parts/page.tsx'
import { SUPPORT_PLACES } from '../../parts/places.ts'

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

/** The screen of one thing leads `back` to the list of them. */
export function SettingsPage({ children, ...page }: ComponentProps<typeof Page>) {
  const { role } = useSession()
  const links = SETTINGS.filter(({ to }) => role !== 'support' || SUPPORT_PLACES.includes(to))
  return (
    <Page {...page} navigation={!page.back && <AreaNavigation label="Settings" links={links} />}>
      {children}
    </Page>
  )
}
