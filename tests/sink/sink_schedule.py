"""Threads that run one at a time, in an order the test chooses: what `threading` and a clock give, without chance.

A thread stops before it takes a lock, after it gives one back, while it waits on a condition, and where it calls
`stop`. `step` lets one go on to its next stop. Nobody stops with a lock in hand, so the test itself may call what takes
locks.
Time stands still unless the test moves it.
"""

import threading


class Task:
    """One thread's work and, when it has ended, its outcome."""

    def __init__(self, schedule, name, work):
        self.schedule, self.name, self.work = schedule, name, work
        self.result = self.error = None
        self.ended = False
        self.may_go = lambda: True
        self.until = None  # of the clock: when a wait ends by itself
        self._go = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __repr__(self):
        return self.name

    def _run(self):
        self._go.acquire()
        try:
            self.result = self.work()
        except BaseException as error:
            self.error = error
        self.ended = True
        self.schedule.stopped.release()

    @property
    def runnable(self):
        return not self.ended and self.may_go()

    def stop(self, may_go, until=None):
        """In this task's thread: go on when the test lets it, which `may_go` must allow."""
        self.may_go, self.until = may_go, until
        self.schedule.stopped.release()
        self._go.acquire()
        self.may_go, self.until = (lambda: True), None

    def go(self):
        self._go.release()


class Schedule:
    """Stands in for the module `threading`; `clock` gives seconds."""

    def __init__(self):
        self.now = 0.0
        self.tasks = []
        self.current = None  # None: the test itself
        self.stopped = threading.Semaphore(0)

    def clock(self):
        return self.now

    def Lock(self):
        return ScheduledLock(self)

    def Condition(self, lock=None):
        return ScheduledCondition(self, lock or self.Lock())

    def start(self, name, work):
        task = Task(self, name, work)
        self.tasks.append(task)
        return task

    def stop(self):
        """A point at which another thread may come in between."""
        if self.current is not None:
            self.current.stop(lambda: True)

    @property
    def runnable(self):
        return [task for task in self.tasks if task.runnable]

    @property
    def alive(self):
        return [task for task in self.tasks if not task.ended]

    def step(self, task):
        assert task.runnable
        self.current = task
        task.go()
        self.stopped.acquire()
        self.current = None

    def settle(self, choose=lambda tasks: tasks[0]):
        """Until nobody can go on without time passing or somebody else doing something."""
        while tasks := self.runnable:
            self.step(choose(tasks))

    def pass_time(self, seconds):
        self.now += seconds

    def abandon(self):
        """End the threads of a test that failed half-way."""
        while self.alive:
            self.now += 1e9
            if not self.runnable:
                break
            self.settle()


class ScheduledLock:
    def __init__(self, schedule):
        self.schedule, self.owner = schedule, None

    def acquire(self):
        if self.schedule.current is not None:
            self.schedule.current.stop(lambda: self.owner is None)
        assert self.owner is None
        self.owner = self.schedule.current or self.schedule

    def release(self):
        assert self.owner is (self.schedule.current or self.schedule)
        self.owner = None
        self.schedule.stop()

    def __enter__(self):
        self.acquire()

    def __exit__(self, *error):
        self.release()


class ScheduledCondition:
    def __init__(self, schedule, lock):
        self.schedule, self.lock, self.task = schedule, lock, schedule.current
        self._waiting = []

    def __enter__(self):
        self.lock.acquire()

    def __exit__(self, *error):
        self.lock.release()

    def wait(self, timeout=None):
        schedule, task, entry = self.schedule, self.schedule.current, [False]
        assert self.lock.owner is task is not None
        until = None if timeout is None else schedule.now + timeout
        self._waiting.append(entry)
        self.lock.owner = None
        task.stop(
            lambda: self.lock.owner is None and (entry[0] or (until is not None and schedule.now >= until)), until
        )
        self.lock.owner = task
        self._waiting = [other for other in self._waiting if other is not entry]
        return entry[0]

    def notify(self, n=1):
        assert self.lock.owner is not None
        for entry in self._waiting[:n]:
            entry[0] = True
        del self._waiting[:n]

    def notify_all(self):
        self.notify(len(self._waiting))
