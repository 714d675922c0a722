/** @module The frame of a screen below Settings: heading, links to the other ones. */
import type { ComponentProps } from 'react'
import { useSession } from '../../api/session.tsx'
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

interface SettingsPageProps extends Omit<ComponentProps<typeof Page>, 'back'> {
  /** The list that this screen is about one of. */
  readonly list?: { readonly label: string; readonly to: NonNullable<Target['to']> }
}

export function SettingsPage({ list, children, ...page }: SettingsPageProps) {
  const { role } = useSession()
  const links = SETTINGS.filter(({ to }) => role !== 'support' || SUPPORT_PLACES.includes(to))
  return (
    <Page {...page} {...(list && { back: { label: list.label, target: { to: list.to } } })}>
      {!list && <AreaNavigation label="Settings" links={links} />}
      {children}
    </Page>
  )
}
