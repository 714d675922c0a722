/** @module Accounts in the operator's lists. */
import { NameLink } from '../../parts/links.tsx'

export const AccountLink = ({ id, name }: { readonly id: string | null; readonly name: string | null }) =>
  id === null ? (
    <span>{name ?? 'A deleted account'}</span>
  ) : (
    <NameLink to="/server/accounts/$id" params={{ id }} name={name || '(no name)'} />
  )
