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
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { flushSync } from 'react-dom'
import { TassisError } from '#client/client.ts'
import { forget, type Stale, useChange } from '../api/data.ts'
import { type Role, useAllowed } from '../api/session.tsx'
import { FieldInput } from './field-input.tsx'
import { CODE_INPUT, type Field, toBody, toInput, type Values } from './fields.ts'
import { RequestId, useSay } from './page.tsx'

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

/** The message for a field, or for a part of it, in a 422; undefined for other errors. */
export function findFieldError(error: unknown, field: string): string | undefined {
  if (!(error instanceof TassisError) || error.status !== 422) return undefined
  return error.details.find((detail) => isOf(detail.field, field))?.message
}

const isOf = (part: string | undefined, field: string): boolean =>
  part !== undefined && (part === field || part.startsWith(`${field}.`) || part.startsWith(`${field}[`))

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

/** The error, unless every part of it is shown beside one of these fields. */
function omitFieldErrors(error: unknown, fields: readonly string[]): unknown {
  if (!(error instanceof TassisError) || !fields.some((field) => findFieldError(error, field) !== undefined))
    return error
  return error.details.every(({ field: part }) => fields.some((field) => isOf(part, field))) ? undefined : error
}

interface FormProps extends Omit<StackProps, 'onSubmit' | 'ref'> {
  readonly 'aria-label'?: string
  readonly 'aria-labelledby'?: string
  /** Whether its fields are beside each other. */
  readonly isRow?: boolean
  /** Whether the browser leaves the checks to us; default: it does. */
  readonly noValidate?: boolean
  /** Of the request: the first field that is wrong gets the focus. */
  readonly error?: unknown
  onSubmit(): void
}

export function Form({ isRow = false, noValidate = true, error, onSubmit, children, ...props }: FormProps) {
  const { 'aria-label': label, 'aria-labelledby': labelledBy, ...layout } = props
  const form = useRef<HTMLFormElement>(null)
  useEffect(() => {
    if (error) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus()
  }, [error])
  return (
    <form
      ref={form}
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
  readonly closeOnClickOutside?: boolean
  /** Must be typed before it can be done: a name, or a number. */
  readonly typed?: string
  readonly children: ReactNode
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
    <Modal
      opened
      onClose={props.onClose}
      title={props.title}
      closeButtonProps={{ 'aria-label': 'Close' }}
      closeOnClickOutside={props.closeOnClickOutside ?? true}
    >
      <Form onSubmit={submit} noValidate={false} error={props.work?.error}>
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

export interface FormOptions<Body, Result> {
  /** By the names that they have in the body of the request. */
  readonly fields?: FieldsOf<Body> | ((values: Values) => FieldsOf<Body>)
  /** What is proposed, perhaps made of what is typed. */
  readonly initial?: object | ((typed: Values) => object)
  /** What is read again afterwards. */
  readonly refreshes?: readonly Stale[]
  run(body: Body): PromiseLike<Result>
}

type FieldsOf<Body> = readonly Field<keyof NoInfer<Body> & string>[]

export interface FormState {
  readonly fields: readonly Field[]
  /** Of the inputs; those that nobody typed into as they are proposed. */
  readonly values: Values
  show(fields: readonly Field[]): ReactNode
  /** As if it were typed. */
  set(inputs: Values): void
}

interface FormHook<Body, Result> extends FormOptions<Body, Result> {
  /** What is changed: only what differs from it is sent, because somebody else may be changing the rest. */
  readonly stored?: object | undefined
  /** Why nothing may be changed. */
  readonly reason?: string | undefined
  readonly isFocused?: boolean
}

export function useForm<Body, Result>(options: FormHook<Body, Result>) {
  const { fields: given = [], stored, initial = stored ?? {}, refreshes = [], reason, isFocused = false, run } = options
  const [typed, setTyped] = useState<Values>({})
  /** What was saved stays shown until it was read again. */
  const [saved, setSaved] = useState<{ readonly over: object; readonly typed: Values }>()
  const base = typeof initial === 'function' ? initial(typed) : initial
  const shown: Values = { ...base, ...(saved?.over === stored && saved?.typed), ...typed }
  const fields = typeof given === 'function' ? given(shown) : given
  const before = (field: Field) =>
    (saved?.over === stored ? saved?.typed[field.name] : undefined) ?? toInput(field, readPath(base, field.name))
  const inputOf = (field: Field) => (Object.hasOwn(typed, field.name) ? typed[field.name] : before(field))
  const changed = fields.filter((field) => inputOf(field) !== before(field))
  const values: Values = Object.fromEntries(fields.map((field) => [field.name, inputOf(field)]))
  const work = useChange(
    async (sent: readonly Field[]) => await run(toBody(sent, values, stored !== undefined) as Body),
    ...refreshes,
  )
  const set = (inputs: Values) => {
    if (!work.isPending && !work.isIdle) work.reset()
    setTyped((now) => ({ ...now, ...inputs }))
  }
  const submit = (onDone?: (result: Result) => unknown) => {
    if (reason !== undefined || work.isPending || (stored && changed.length === 0)) return
    work.mutate(stored ? changed : fields, {
      onSuccess: (result) => {
        // Before what leaves the screen, which would ask about unsaved changes.
        flushSync(() => {
          if (stored) setSaved({ over: stored, typed })
          setTyped((now) => (now === typed ? {} : now))
        })
        return onDone?.(result)
      },
    })
  }
  const show = (some: readonly Field[]): ReactNode =>
    some.map((field, index) => (
      <FieldInput
        key={field.name}
        field={field}
        isFirst={isFocused && index === 0}
        value={inputOf(field)}
        error={findFieldError(work.error, field.name) ?? findFieldError(work.error, field.errorName ?? field.name)}
        isReadOnly={reason !== undefined}
        set={(value) => set({ [field.name]: value })}
      />
    ))
  /** Of fields that show their errors themselves. */
  const names = fields.flatMap(({ name, errorName = name }) => [name, errorName])
  return { fields, names, values, show, set, work, submit, isUnchanged: changed.length === 0 }
}

const readPath = (base: object, name: string): unknown =>
  name.split('.').reduce<unknown>((value, key) => (value as Values | null | undefined)?.[key], base)

interface FieldFormProps<Body, Result>
  extends FormHook<Body, Result>,
    Pick<FormProps, 'maw' | 'gap' | 'align' | 'aria-label' | 'aria-labelledby'> {
  /** The role that may send it; others see why they may not. */
  readonly needs?: Role
  /** Of the button. */
  readonly label?: string
  /** What is said afterwards; default for what is stored: "Saved." */
  readonly done?: string
  /** Said to those who leave without saving. */
  readonly lost?: string
  /** Beside the button. */
  readonly actions?: ReactNode
  /** Where its fields are; default: below each other. */
  readonly layout?: (form: FormState) => ReactNode
  /** Whether not every field is always on the screen, so that all errors are shown below. */
  readonly hidesFields?: boolean
  onDone?(result: Result): unknown
}

/** A form on a screen, which sends what is typed, or what is changed of something stored. */
export function FieldForm<Body, Result>(props: FieldFormProps<Body, Result>) {
  const {
    needs = 'viewer',
    label = 'Save',
    done = 'Saved.',
    lost,
    actions,
    layout,
    hidesFields,
    onDone,
    ...options
  } = props
  const { maw, gap = 'md', align = 'flex-start', 'aria-label': name, 'aria-labelledby': labelledBy, stored } = options
  const roleReason = useAllowed(needs)
  const reason = options.reason ?? roleReason
  const form = useForm({ ...options, reason })
  const { fields, names, show, work, isUnchanged, submit } = form
  const labels = { ...(name && { 'aria-label': name }), ...(labelledBy && { 'aria-labelledby': labelledBy }) }
  return (
    <Form
      onSubmit={() => submit(onDone)}
      noValidate={false}
      error={work.error}
      gap={gap}
      align={align}
      {...(maw !== undefined && { maw })}
      {...labels}
    >
      {roleReason !== undefined && <Alert color="gray">{roleReason}</Alert>}
      {layout ? layout(form) : show(fields)}
      <FormError error={work.error} fields={hidesFields ? [] : names} />
      <Group>
        <SubmitButton
          reason={reason ?? (stored && isUnchanged ? 'Nothing was changed yet.' : undefined)}
          loading={work.isPending}
        >
          {label}
        </SubmitButton>
        {actions}
        <Text component="span" role="status" size="sm">
          {work.isSuccess && isUnchanged && done}
        </Text>
      </Group>
      {lost !== undefined && <LeaveGuard text={lost} isDirty={() => !isUnchanged} />}
    </Form>
  )
}

interface ConfirmDialogProps<Body, Result>
  extends FormOptions<Body, Result>,
    Omit<DialogFrameProps, 'work' | 'onConfirm' | 'fields' | 'children'> {
  /** What is said on the screen afterwards. */
  readonly done?: string | ((result: Result) => ReactNode)
  /** Whether it is still open afterwards. */
  readonly staysOpen?: boolean
  /** Above the fields. */
  readonly children?: ReactNode
  /** Below the fields. */
  readonly footer?: (form: FormState) => ReactNode
  /** Of what it shows, besides that of its request. */
  readonly error?: unknown
  onDone?(result: Result): unknown
}

/** Asks before a request is made, and for what it needs. */
export function ConfirmDialog<Body, Result>(props: ConfirmDialogProps<Body, Result>) {
  const {
    fields: _,
    initial,
    refreshes,
    run,
    done,
    staysOpen = false,
    children,
    footer,
    error,
    onDone,
    ...frame
  } = props
  const form = useForm({ ...props, isFocused: true })
  const { fields, names, show, work, submit } = form
  const say = useSay()
  const finish = (result: Result) => {
    if (done !== undefined) say(typeof done === 'string' ? done : done(result))
    const rest = onDone?.(result)
    if (!staysOpen) frame.onClose()
    return rest
  }
  return (
    <DialogFrame
      {...frame}
      work={{ isPending: work.isPending, error: work.error ?? error }}
      fields={names}
      onConfirm={() => submit(finish)}
    >
      {children}
      {show(fields)}
      {footer?.(form)}
    </DialogFrame>
  )
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

interface ConfirmButtonProps<Body, Result> extends Omit<ConfirmDialogProps<Body, Result>, 'onClose'> {
  readonly label: string
  readonly size?: 'compact-sm' | 'xs' | 'sm'
  readonly variant?: 'filled' | 'default'
  readonly color?: string
  readonly needs?: Role
  /** Why it is not possible, besides the role. */
  readonly reason?: string | undefined
  readonly 'aria-label'?: string
}

export function ConfirmButton<Body, Result>(props: ConfirmButtonProps<Body, Result>) {
  const { label, size = 'sm', variant = 'default', color, needs = 'viewer', reason, ...dialog } = props
  const button = { label, size, variant, needs, reason, 'aria-label': props['aria-label'], ...(color && { color }) }
  return <DialogButton {...button}>{(close) => <ConfirmDialog isDangerous {...dialog} onClose={close} />}</DialogButton>
}

interface DeleteButtonProps extends Omit<ConfirmButtonProps<unknown, unknown>, 'run' | 'onDone'> {
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

/** The value of an input, and what changes it. */
export const bindText = (value: string, set: (value: string) => void) => ({
  value,
  onChange: (event: { readonly currentTarget: { readonly value: string } }) => set(event.currentTarget.value),
})

export const bindChecked = (checked: boolean, set: (checked: boolean) => void) => ({
  checked,
  onChange: (event: { readonly currentTarget: { readonly checked: boolean } }) => set(event.currentTarget.checked),
})

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
