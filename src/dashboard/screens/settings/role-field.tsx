/** @module The choice of a role, with what each allows. */
import { useSession } from '../../api/session.tsx'
import type { Field } from '../../parts/fields.ts'

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

export function useRoleField(): Field<'role'> {
  const { role } = useSession()
  const options = ROLES.map(({ value, label, text }) => {
    const disabled = value === 'owner' && role !== 'owner'
    return { value, label, description: disabled ? `${text} Only an owner can choose this.` : text, disabled }
  })
  return { name: 'role', label: 'Role', kind: 'radio', options }
}
