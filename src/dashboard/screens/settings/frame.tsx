/** @module The frame of a screen below Settings: heading, links to the other ones; the account and roles as they show them. */
import type { ComponentProps } from 'react'
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { useSession } from '../../api/session.tsx'
import type { Field } from '../../parts/fields.ts'
import { UNLIMITED } from '../../parts/format.ts'
import { SUPPORT_PLACES } from '../../parts/navigation.ts'
import { AreaNavigation, Page } from '../../parts/page.tsx'

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

export function SettingsPage({ children, ...page }: Omit<ComponentProps<typeof Page>, 'back'>) {
  const { role } = useSession()
  const links = SETTINGS.filter(({ to }) => role !== 'support' || SUPPORT_PLACES.includes(to))
  return (
    <Page {...page} navigation={<AreaNavigation label="Settings" links={links} />}>
      {children}
    </Page>
  )
}

export const useAccount = () => useData(read.account.get())

export const formatLimit = (limit: number): string => (limit >= UNLIMITED ? 'Unlimited' : limit.toLocaleString())

/** How much is used, and of how much if that is limited. */
export const formatUsage = (used: number, limit: number): string =>
  isLimited(limit) ? `${used.toLocaleString()} of ${formatLimit(limit)}` : used.toLocaleString()

export const isLimited = (limit: number): boolean => limit < UNLIMITED

/** Leaves the dashboard. Only web pages are opened: the URL comes from another host. */
export function openProviderPage(url: string): void {
  const { protocol } = new URL(url)
  if (protocol !== 'https:' && protocol !== 'http:') throw new Error('The payment provider returned no web page.')
  location.assign(url)
}

const ROLES = [
  { value: 'owner', label: 'Owner', text: 'Everything, also deletion of the account, plans and owners.' },
  { value: 'admin', label: 'Admin', text: 'Everything else: team, API keys, settings, sub-accounts, exports.' },
  { value: 'developer', label: 'Developer', text: 'Sends and sets up mail: domains, templates, webhooks, contacts.' },
  { value: 'viewer', label: 'Viewer', text: 'Reads everything, also received mail, and changes nothing.' },
  {
    value: 'support',
    label: 'Support',
    text: 'Finds mail and people, removes suppressions. Sees no contents or links.',
  },
]

/** A role of a newer version is shown by its name. */
export const toRoleWord = (role: string): string => ROLES.find(({ value }) => value === role)?.label ?? role

/** The choice of a role, with what each allows. */
export function useRoleField(): Field<'role'> {
  const { role } = useSession()
  const options = ROLES.map(({ value, label, text }) => {
    const disabled = value === 'owner' && role !== 'owner'
    return { value, label, description: disabled ? `${text} Only an owner can choose this.` : text, disabled }
  })
  return { name: 'role', label: 'Role', kind: 'radio', options }
}
