/** @module Forms: their buttons, which say why they are not possible now, their errors, and the dialogs that ask first. */
import {
  Alert,
  Button,
  type ButtonProps,
  Code,
  Group,
  List,
  Modal,
  Stack,
  type StackProps,
  Text,
  TextInput,
  Tooltip,
} from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useBlocker, useNavigate } from '@tanstack/react-router'
import { type ReactNode, type RefObject, useCallback, useEffect, useRef, useState } from 'react'
import { TassisError } from '#client/client.ts'
import { forget, type Stale, useChange } from '../api/data.ts'
import { type Role, useAllowed } from '../api/session.tsx'
import { RequestId } from './page.tsx'

interface ActionProps extends ButtonProps {
  /** The role that may do it; default: every one. */
  readonly needs?: Role
  /** Why it is not possible, besides the role. */
  readonly reason?: string | undefined
  onClick(): void
}

/** The disabled button can still have the focus, so that its reason can be read by keyboard and screen reader. */
export function ActionButton({ needs = 'viewer', reason, onClick, children, ...props }: ActionProps) {
  const obstacle = useAllowed(needs) ?? reason
  return obstacle === undefined ? (
    <Button {...props} onClick={onClick}>
      {children}
    </Button>
  ) : (
    <Tooltip label={obstacle} position="bottom" events={{ hover: true, focus: true, touch: true }} multiline maw={300}>
      <Button {...props} data-disabled aria-disabled="true" aria-description={obstacle}>
        {children}
      </Button>
    </Tooltip>
  )
}

/** Beside others: what can be done with the thing that a screen shows. */
export const SmallAction = (props: ActionProps) => <ActionButton size="xs" variant="default" {...props} />

interface SubmitProps extends ButtonProps {
  readonly reason: string | undefined
}

/** The button that sends a form, unless it is not possible now. */
export const SubmitButton = ({ reason, children, ...props }: SubmitProps) =>
  reason === undefined ? (
    <Button type="submit" {...props}>
      {children}
    </Button>
  ) : (
    <ActionButton reason={reason} onClick={() => undefined}>
      {children}
    </ActionButton>
  )

/** The message for a field in a 422; undefined for other errors. */
export function findFieldError(error: unknown, field: string): string | undefined {
  if (!(error instanceof TassisError) || error.status !== 422) return undefined
  return error.details.find((detail) => detail.field === field)?.message
}

interface FormErrorProps {
  readonly error: unknown
  /** Fields that show their errors themselves. */
  readonly fields?: readonly string[]
}

/** Shows nothing without an error, or if fields show all of it. */
export function FormError({ error: thrown, fields = [] }: FormErrorProps) {
  const error = omitFieldErrors(thrown, fields)
  if (!error) return null
  if (!(error instanceof TassisError)) return <Alert color="red">{String(error)}</Alert>
  const { message, details, retryAfter, requestId } = error
  return (
    <Alert color="red" role="alert">
      <Text>{message}</Text>
      {details.length > 0 && (
        <List size="sm">
          {details.map((detail) => (
            <List.Item key={`${detail.field} ${detail.message}`}>
              {detail.field && <Code>{detail.field}</Code>} {detail.message}
            </List.Item>
          ))}
        </List>
      )}
      {retryAfter !== undefined && <Text size="sm">You can try again in {retryAfter} s.</Text>}
      <RequestId id={requestId} />
    </Alert>
  )
}

interface SaveRowProps {
  readonly save: { readonly isPending: boolean; readonly isSuccess: boolean }
  readonly isUnchanged: boolean
  /** Why it cannot be saved, apart from being unchanged. */
  readonly reason?: string | undefined
  readonly label?: string
  readonly children?: ReactNode
}

export function SaveRow({ save, isUnchanged, reason, label = 'Save', children }: SaveRowProps) {
  const obstacle = reason ?? (isUnchanged ? 'Nothing was changed yet.' : undefined)
  return (
    <Group>
      <SubmitButton reason={obstacle} loading={save.isPending}>
        {label}
      </SubmitButton>
      {children}
      <Text component="span" role="status" size="sm">
        {save.isSuccess && isUnchanged && 'Saved.'}
      </Text>
    </Group>
  )
}

/**
 * What is changed in a form of something stored. Only that is sent: somebody else may be changing the rest.
 * @param reason why nothing may be saved
 */
export function useEdit<Changes extends object>(
  send: (changes: Changes) => PromiseLike<unknown>,
  reason: string | undefined,
  ...refreshes: readonly Stale[]
) {
  const [changes, setChanges] = useState({} as Changes)
  const save = useChange(send, ...refreshes)
  const isUnchanged = Object.keys(changes).length === 0
  const set = (next: Changes) => {
    save.reset()
    setChanges((before) => ({ ...before, ...next }))
  }
  const submit = () => {
    if (!isUnchanged && reason === undefined)
      save.mutate(changes, { onSuccess: () => setChanges((now) => (now === changes ? ({} as Changes) : now)) })
  }
  return { changes, set, save, isUnchanged, submit }
}

/** The error, unless every part of it is shown beside one of these fields. */
function omitFieldErrors(error: unknown, fields: readonly string[]): unknown {
  if (!(error instanceof TassisError) || !fields.some((field) => findFieldError(error, field) !== undefined))
    return error
  return error.details.every(({ field }) => field !== undefined && fields.includes(field)) ? undefined : error
}

/**
 * Focuses whenever there is a new `error` of a request. `focusInvalid` does it for problems found before a request; they
 * must be rendered already.
 */
export function useFocusInvalid(error: unknown): {
  readonly form: RefObject<HTMLFormElement | null>
  focusInvalid(): void
} {
  const form = useRef<HTMLFormElement>(null)
  const focusInvalid = useCallback(() => {
    form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus()
  }, [])
  useEffect(() => {
    if (error) focusInvalid()
  }, [error, focusInvalid])
  return { form, focusInvalid }
}

interface FormProps extends Omit<StackProps, 'onSubmit' | 'ref'> {
  readonly ref?: RefObject<HTMLFormElement | null>
  readonly 'aria-label'?: string
  readonly 'aria-labelledby'?: string
  /** Whether its fields are beside each other. */
  readonly isRow?: boolean
  /** Whether the browser leaves the checks to us; default: it does. */
  readonly noValidate?: boolean
  onSubmit(): void
}

export function Form({ ref, isRow = false, noValidate = true, onSubmit, children, ...props }: FormProps) {
  const { 'aria-label': label, 'aria-labelledby': labelledBy, ...layout } = props
  return (
    <form
      {...(ref && { ref })}
      aria-label={label}
      aria-labelledby={labelledBy}
      style={{ maxWidth: '100%' }}
      noValidate={noValidate}
      onSubmit={(event) => {
        event.preventDefault()
        // A dialog may be inside of another form in the tree of components, not on the page.
        event.stopPropagation()
        onSubmit()
      }}
    >
      {isRow ? (
        <Group align="flex-end" gap="xs">
          {children}
        </Group>
      ) : (
        <Stack {...layout}>{children}</Stack>
      )}
    </form>
  )
}

interface DialogFrameProps {
  readonly title: string
  /** Label of the button that does it. */
  readonly confirm: string
  readonly isDangerous?: boolean
  /** What the button starts. */
  readonly work?: { readonly isPending: boolean; readonly error: unknown }
  /** Fields inside that show their errors themselves. */
  readonly fields?: readonly string[]
  readonly isIncomplete?: boolean
  /** Must be typed before it can be done: a name, or a number. */
  readonly typed?: string
  readonly children: ReactNode
  readonly extra?: ReactNode
  onConfirm(): void
  onClose(): void
  /** Called when the dialog is removed: what gets the focus; by default the element that opened it. */
  findNextFocus?(): HTMLElement | null | undefined
}

/** Moves the focus after the dialog: it is unmounted at once, without its closing steps. */
function useFocusReturn(findNext: (() => HTMLElement | null | undefined) | undefined): void {
  const [opener] = useState(() => document.activeElement)
  const latest = useRef(findNext)
  latest.current = findNext
  useEffect(
    () => () => {
      const next = latest.current?.() ?? opener
      setTimeout(() => next instanceof HTMLElement && next.isConnected && next.focus())
    },
    [opener],
  )
}

/** Stays open, with what was typed, when the action fails. */
export function DialogFrame(props: DialogFrameProps) {
  const [text, setText] = useState('')
  const { typed } = props
  useFocusReturn(props.findNextFocus)
  const [isWrong, setIsWrong] = useState(false)
  const submit = () => {
    const isTyped = typed === undefined || text.trim().toLowerCase() === typed.toLowerCase()
    setIsWrong(!isTyped)
    if (isTyped && !props.isIncomplete) props.onConfirm()
  }
  return (
    <Modal opened onClose={props.onClose} title={props.title} closeButtonProps={{ 'aria-label': 'Close' }}>
      <Form onSubmit={submit} noValidate={false}>
        {props.children}
        {typed !== undefined && (
          <TextInput
            label={`Type ${typed} to confirm`}
            {...bindText(text, setText)}
            error={isWrong && `This is not ${typed}.`}
            {...CODE_INPUT}
            data-autofocus
          />
        )}
        <FormError error={props.work?.error} fields={props.fields ?? []} />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={props.onClose}>
            Back
          </Button>
          {props.extra}
          <Button
            type="submit"
            loading={props.work?.isPending ?? false}
            disabled={props.isIncomplete ?? false}
            {...(props.isDangerous && { color: 'red.8' })}
          >
            {props.confirm}
          </Button>
        </Group>
      </Form>
    </Modal>
  )
}

interface ConfirmDialogProps<Result> extends Omit<DialogFrameProps, 'work' | 'onConfirm'> {
  /** What is read again afterwards. */
  readonly refreshes?: readonly Stale[]
  run(): PromiseLike<Result>
  /** Default: it is closed. */
  onDone?(result: Result): unknown
}

export function ConfirmDialog<Result>({ refreshes = [], run, onDone, ...frame }: ConfirmDialogProps<Result>) {
  const work = useChange(run, ...refreshes)
  const onSuccess = onDone ?? frame.onClose
  return <DialogFrame {...frame} work={work} onConfirm={() => work.mutate(undefined, { onSuccess })} />
}

interface DialogButtonProps extends Omit<ActionProps, 'onClick' | 'children'> {
  readonly label: ReactNode
  children(close: () => void): ReactNode
}

export function DialogButton({ label, children, ...button }: DialogButtonProps) {
  const [isOpen, setIsOpen] = useState(false)
  return (
    <>
      <ActionButton {...button} onClick={() => setIsOpen(true)}>
        {label}
      </ActionButton>
      {isOpen && children(() => setIsOpen(false))}
    </>
  )
}

interface ConfirmButtonProps<Result> extends Omit<ConfirmDialogProps<Result>, 'onClose'> {
  readonly label: string
  readonly size?: 'compact-sm' | 'xs' | 'sm'
  readonly needs?: Role
  /** Why it is not possible, besides the role. */
  readonly reason?: string | undefined
  readonly 'aria-label'?: string
}

export function ConfirmButton<Result>(props: ConfirmButtonProps<Result>) {
  const { label, size = 'sm', needs = 'viewer', reason, 'aria-label': ariaLabel, onDone, ...dialog } = props
  return (
    <DialogButton label={label} size={size} variant="default" needs={needs} reason={reason} aria-label={ariaLabel}>
      {(close) => (
        <ConfirmDialog
          isDangerous
          {...dialog}
          onDone={(result) => {
            close()
            return onDone?.(result)
          }}
          onClose={close}
        />
      )}
    </DialogButton>
  )
}

interface DeleteButtonProps extends Omit<ConfirmButtonProps<unknown>, 'run' | 'onDone'> {
  /** The lists that it is in. */
  readonly refreshes: readonly Stale[]
  remove(): PromiseLike<unknown>
  /** The screen that takes the place of its own. */
  readonly leadsTo?: string
  /** Resolves when its screen was left, if it has one. */
  onDeleted?(): unknown
}

export function DeleteButton(allProps: DeleteButtonProps) {
  const { needs = 'developer', remove, leadsTo, onDeleted, ...props } = allProps
  const navigate = useNavigate()
  const queries = useQueryClient()
  return (
    <ConfirmButton
      {...props}
      needs={needs}
      run={remove}
      onDone={async () => {
        // Before its screen is left, so that no list shows it again, and of itself after that.
        forget(queries, ...props.refreshes)
        await onDeleted?.()
        if (leadsTo !== undefined) await navigate({ to: leadsTo })
        forget(queries, ...props.refreshes)
      }}
    />
  )
}

/** What an address, a name for programs or a URL is typed into. */
export const CODE_INPUT = { autoComplete: 'off', autoCapitalize: 'none', spellCheck: false } as const

/** The value of an input, and what changes it. */
export const bindText = (value: string, set: (value: string) => void) => ({
  value,
  onChange: (event: { readonly currentTarget: { readonly value: string } }) => set(event.currentTarget.value),
})

export const bindChecked = (checked: boolean, set: (checked: boolean) => void) => ({
  checked,
  onChange: (event: { readonly currentTarget: { readonly checked: boolean } }) => set(event.currentTarget.checked),
})

/** What an input of a text takes. */
export interface TextField extends ReturnType<typeof bindText> {
  readonly error: string | undefined
}

/**
 * The texts of a form, by the names that `/v1` has for its fields.
 * @param error of the request; each field shows its own
 */
export function useFields<Values extends Readonly<Record<string, string>>>(
  initial: Values | (() => Values),
  error: unknown,
) {
  const [values, setValues] = useState(initial)
  const set = (changed: Partial<Values>) => setValues((before) => ({ ...before, ...changed }))
  const field = (name: keyof Values & string): TextField => ({
    ...bindText(values[name] ?? '', (value) => set({ [name]: value } as Partial<Values>)),
    error: findFieldError(error, name),
  })
  return { values, set, field, fields: Object.keys(values) }
}

interface LeaveGuardProps {
  /** What is lost, as a sentence. */
  readonly text: string
  /** Asked at the moment of leaving. */
  isDirty(): boolean
  /** Whether a change of the query alone leaves the text too. */
  readonly isQueryGuarded?: boolean
}

export function LeaveGuard({ text, isDirty, isQueryGuarded = false }: LeaveGuardProps) {
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => (isQueryGuarded || current.pathname !== next.pathname) && isDirty(),
    enableBeforeUnload: isDirty,
    withResolver: true,
  })
  if (blocker.status !== 'blocked') return null
  return (
    <DialogFrame
      title="Leave without saving?"
      confirm="Leave"
      isDangerous
      onConfirm={blocker.proceed}
      onClose={blocker.reset}
    >
      <Text>{text}</Text>
    </DialogFrame>
  )
}
