"""Loop bodies of all of Python: classes, containers, closures, aliases, side effects."""

# ruff: noqa: E501

CLASSES = """
import numpy as np, collections, functools
n=10; A=np.zeros(100); B=np.arange(100.0); L=[0]*50; dd=collections.defaultdict(list); cnt=collections.Counter(); dq=collections.deque()
class W:
    def __init__(self,a): self.a=a
    def put(self,k,v): self.a[k]=v
    def __setitem__(self,k,v): self.a[0]=v
    def __iadd__(self,v): self.a[0]=v; return self
    @property
    def arr(self): return self.a
    def __call__(self,k): self.a[0]=k
w=W(A)
class Sl:
    __slots__=("x",)
sl=Sl(); sl.x=np.zeros(9)
def side(x): A[0]=x; return x
vec=np.vectorize(side); ufn=np.frompyfunc(side,1,1); part=functools.partial(side)
@functools.lru_cache
def cached(x): return x
ma=np.ma.zeros(50); mat=np.matrix(np.zeros((10,10)))
it=iter(range(100))
dup=np.arange(20)//2
big=np.zeros((300,300))
rec=np.zeros(20,dtype=[('x',float),('y',float)])
fb=np.frombuffer(memoryview(A),dtype=float)
o=np.empty(10,dtype=object)
for k in range(10): o[k]=[0]
class P:
    def __init__(self): self.v=0
    @property
    def nxt(self):
        self.v+=1
        return self.v
p=P()
z0=np.zeros(())
M=np.zeros((10,10))
"""

ALL = """
import numpy as np, math, os, sys, time, json, itertools, functools, operator, threading, queue, logging, collections, copy, random
from collections import deque, defaultdict, Counter, namedtuple
from dataclasses import dataclass
n=10; A=np.zeros(100); B=np.arange(100.0); L=[0]*50; M=np.zeros((10,10)); d={}; S=set(); t=(A,B); dq=deque(); q=queue.Queue(); lk=threading.Lock(); dd=defaultdict(int); cn=Counter()
nested={'a':{'x':A},'b':[1,2]}; ll=[[1],[2]]*5; objs=[type('O',(),{})() for _ in range(10)];
for o in objs: o.v=np.zeros(3); o.n=0
@dataclass
class Pt:
    x: float = 0.0
    arr: object = None
pts=[Pt() for _ in range(10)]; pt=Pt(); shared=Pt(arr=A); pts2=[shared]*10
NT=namedtuple('NT','a b'); nt=NT(A,B)
class Acc:
    total=0
    items=[]
    def add(self,v): Acc.total+=v
    def app(self,v): self.items.append(v)
    @staticmethod
    def st(a,k): a[k]=1
    @classmethod
    def cm(cls,v): cls.total=v
    def __getitem__(self,k): return A[k]
    def __setitem__(self,k,v): A[0]=v
    def __call__(self,v): A[0]=v
    def __enter__(self): A[0]=1
    def __exit__(self,*a): pass
    def __iter__(self): A[0]=1; return iter([1])
    def __add__(self,o): A[0]=1; return self
    def __len__(self): A[0]=1; return 1
    def __bool__(self): A[0]=1; return True
    def __lt__(self,o): A[0]=1; return True
    def __contains__(self,o): A[0]=1; return True
    def __neg__(self): A[0]=1; return self
    def __str__(self): A[0]=1; return ''
acc=Acc()
def rec(a,k):
    if k==0: a[0]=1
    else: rec(a,k-1)
def gen():
    A[0]=1
    yield 1
def kw(a,*,k=0): a[k]=1
def star(*a): a[0][0]=1
def kwstar(**k): k['a'][0]=1
def ret(a): return a
def ret2(a,b): return (a,b) if n>3 else (b,a)
def closure():
    z=A
    def inner(k): z[0]=k
    return inner
inn=closure()
def defarr(k,a=A): a[0]=k
def nestedf(k):
    def h(): A[0]=k
    h()
def trye(a):
    try: a[0]=1
    finally: pass
state={'k':0}
def usestate(): state['k']+=1; return state['k']
def lis(x,acc_=None):
    acc_ = L if acc_ is None else acc_
    acc_[0]=x
mv=memoryview(A); by=bytearray(10)
"""

DEPENDENT_WITH_CLASSES = [
    "w.put(0,i)",
    "w[i]=1",
    "q=W(A)\n    q.put(0,i)",
    "q=W(A)\n    q[i]=1",
    "w.arr[0]=i",
    "W(A).arr[0]=i",
    "q=W(A)\n    q.a[0]=i",
    "w(i)",
    "w += 1",
    "sl.x[0]=i",
    "sl.x=3",
    "vec(i)",
    "ufn(i)",
    "part(i)",
    "B[i]=side(i)",
    "list(map(side,[i]))",
    "sorted([i],key=side)",
    "max([i,2],key=lambda v: side(v))",
    "L.sort(key=side)",
    "dq.append(i)",
    "dd[0].append(i)",
    "dd[dup[i]].append(i)",
    "cnt[0]=i",
    "next(it)",
    "B[i]=next(it)",
    "ma[0]=i",
    "mat[0]=i",
    "rec['x'][0]=i",
    "rec[i]['x']=rec[i+1]['x']",
    "fb[i]=A[i+1]",
    "o[0].append(i)",
    "o[0]=i",
    "A.flat[0]=i",
    "big.T[0,0]=i",
    "B[i]=p.nxt",
    "x=A.sort\n    x()",
    "f=A.fill\n    f(i)",
    "W.k=i",
    "np.foo=i",
    "A.shape=(10,10)",
    "map(A.sort,[1])",
    "(A if i else B)[0]=i",
    "[A][0][0]=i",
    "{'a':A}['a'][0]=i",
    "x=[A,B]\n    for y in x: y[0]=i",
    "x=dict(a=A)\n    x['a'][0]=i",
    "x=list((A,))\n    x[0][0]=i",
    "def g(): A[0]=i\n    g()",
    "def g(q): q[0]=i\n    g(A)",
    "x=lambda q: q.fill(1)\n    x(A)",
    "y=A.view()\n    y[0]=i",
    "y=np.squeeze(A)\n    y[0]=i",
    "y=A.reshape(10,10)\n    y[0]=i",
    "y,x=A,B\n    y[0]=i",
    "y=x=A\n    x[0]=i",
    "*y,x=A,B\n    y[0][0]=i",
    "(y:=A)[0]=i",
    "np.asarray(A)[0]=i",
    "np.split(A,2)[0][0]=i",
    "for y in np.split(A,2): y[0]=i",
    "for q in M: q[0]=i",
    "for q in M.T: q[i-1]=q[i]",
    "getattr(A,'fill')(i)",
    "setattr(w,'a',B)",
    "w.__dict__['a']=B",
    "globals()['A']=B",
    "vars(w)['a']=3",
    "A.__setitem__(0,i)",
    "operator=__import__('operator'); operator.setitem(A,0,i)",
    "yield_=[x for x in (A,)]\n    yield_[0][0]=i",
    "match i:\n        case 1: A[0]=1\n        case _: A[0]=2",
    "A[i]=1; A.resize((3,3))",
    "del A[0]",
    "z0[()]=i",
    "try:\n        A[i]=A[i+1]\n    except IndexError: pass",
    "for j in range(3):\n        pass\n    A[j]=i",
    "k=i\n    while k>0: k-=1\n    A[k]=i",
    "A[[0,1]]=i",
    "A[np.array([0,1])]=i",
    "A[A>3]=i",
    "A.put(0,i)",
    "A.setfield(0,float)",
    "np.place(A,A>3,i)",
    "L.extend([i])",
    "L+=[i]",
    "L*=2",
    "A[slice(0,3)]=i",
    "A[i,...]=A[i+1,...]",
    "A[...,i]=A[...,i+1]",
    "x=i if B[i]>3 else 0\n    A[x]=1",
    "t=[0]\n    L[0]=t",
]

INDEPENDENT_WITH_CLASSES = [
    "w.put(i,1)",
    "q=W(np.zeros(3))\n    q.put(0,i)\n    B[i]=q.a[0]",
    "rec['x'][i]=rec['y'][i]",
    "rec['x'][i]=rec['y'][i+1]",
    "fb[i]=A[i]",
    "cnt_=0",
    "A[i]=sorted(B[:3],key=lambda v:-v)[0]",
    "A[i]=max([1,2],key=lambda v:-v)",
    "z0+=B[i]",
    "A[i]=cached.__name__ is None",
    "A[i]=w.a[i+50]",
    "x=M[i]\n    for j in range(3): x[j]=j",
    "for q in [M[i]]: q[0]=1",
    "A[i]=sum(map(float,B[:3]))",
    "A[i]=functools.reduce(lambda a,b:a+b,B[:3].tolist())",
    "a,*r=B[:3]\n    A[i]=a",
    "A[i]=B[i:i+3]@B[i:i+3]",
    "A[i]=np.array([B[i],B[i+1]]).sum()",
    "A[i]=np.sum([B[j] for j in range(3)])",
    "A[i]=float(np.float64(B[i]))",
    "x=np.empty(3)\n    for j in range(3): x[j]=B[j]\n    A[i]=x.sum()",
    "k=0\n    for j in range(5):\n        if B[j]>2:\n            k+=1\n    A[i]=k",
    "A[i]=B[i] if B[i]>0 else -B[i]",
    "big[i,:]=big[i,:].cumsum()",
    "A[i]=str(i).count('1')",
    "A[i]=int(f'{i}')",
    "A[i]=len(f'{i:03d}')",
]

DEPENDENT = [
    "acc.add(i)",
    "acc.app(i)",
    "acc.st(A,0)",
    "Acc.st(A,0)",
    "Acc.cm(i)",
    "acc[i]=1",
    "acc(i)",
    "with acc: pass",
    "for z in acc: pass",
    "acc+1",
    "len(acc)",
    "if acc: B[i]=1",
    "acc<1",
    "3 in acc",
    "-acc",
    "str(acc)",
    "f'{acc}'",
    "rec(A,3)",
    "list(gen())",
    "for z in gen(): pass",
    "kw(A)",
    "kw(A,k=0)",
    "star(A)",
    "kwstar(a=A)",
    "ret(A)[0]=i",
    "ret2(A,B)[0][0]=i",
    "x,y=ret2(A,B)\n    x[0]=i",
    "inn(i)",
    "defarr(i)",
    "nestedf(i)",
    "trye(A)",
    "usestate()",
    "B[i]=usestate()",
    "lis(i)",
    "nested['a']['x'][0]=i",
    "nested['b'][0]=i",
    "nested['b'].append(i)",
    "ll[i][0]=i",
    "objs[0].v[0]=i",
    "objs[i//2].n=i",
    "objs[i].n=objs[i-1].n",
    "pts[0].x=i",
    "pt.x=i",
    "pts2[i].arr[0]=i",
    "pts2[i].x=i",
    "nt.a[0]=i",
    "t[0][0]=i",
    "q.put(i)",
    "dq.append(i)",
    "dd[0]+=1; B[i]=dd[0]",
    "cn.update([i])",
    "S.add(i)",
    "lk.acquire()",
    "os.environ['A']='1'",
    "sys.path.append('x')",
    "logging.info(i)",
    "time.sleep(0)",
    "json.dump(i,open('f','w'))",
    "mv[0]=1.0",
    "mv[i]=mv[i+1]",
    "by[0]=1",
    "setattr(pt,'x',i)",
    "operator.setitem(A,0,i)",
    "operator.iadd(A,1)",
    "A.__iadd__(1)",
    "np.ndarray.fill(A,i)",
    "list.append(L,i)",
    "dict.update(d,{1:i})",
    "copy.copy(L)[0]=i; L[0]=i",
    "x=copy.copy([A])\n    x[0][0]=i",
    "x=list(t)\n    x[0][0]=i",
    "x=[*t]\n    x[0][0]=i",
    "x={**nested}\n    x['a']['x'][0]=i",
    "x=dict(nested)\n    x['a']['x'][0]=i",
    "x=sorted([A],key=id)\n    x[0][0]=i",
    "x=max([A,B],key=lambda v:v[0])\n    x[0]=i",
    "for x in itertools.chain([A],[B]): x[0]=i",
    "x=next(iter([A]))\n    x[0]=i",
    "x=functools.reduce(lambda a,b:a,[A,B])\n    x[0]=i",
    "x=(lambda:A)()\n    x[0]=i",
    "x=[A for _ in range(2)][0]\n    x[0]=i",
    "x=A[:]\n    x[0]=i",
    "x=A[...]\n    x[0]=i",
    "x=A[None][0]\n    x[0]=i",
    "x=np.atleast_2d(A)\n    x[0,0]=i",
    "x=np.broadcast_arrays(A,B)[0]\n    x[0]=i",
    "x=np.lib.stride_tricks.as_strided(A,(3,),(8,))\n    x[0]=i",
    "x=np.frombuffer(A)\n    x[0]=i",
    "x=np.array(A,copy=False)\n    x[0]=i",
    "x=np.asarray(A,dtype=float)\n    x[0]=i",
    "x=A.astype(float,copy=False)\n    x[0]=i",
    "x=A.view(int)\n    x[0]=i",
    "x=A.T.T\n    x[0]=i",
    "x=M.flat\n    x[0]=i",
    "for x in M: x[0]=i",
    "for x in M.T: x[i]=x[i-1]",
    "for x in np.nditer(A,op_flags=['readwrite']): x[...]=i",
    "for k,x in enumerate(M): x[0]=i",
    "for a,b in zip(M,M): a[0]=i",
    "x,*y=M\n    x[0]=i",
    "(x,y),z=(A,B),A\n    z[0]=i",
    "with np.nditer(A) as it: pass",
    "global A\n    A=B",
    "import numpy as np2\n    np2.copyto(A,B)",
    "exec('A[0]=1')",
    "eval('A.fill(1)')",
    "globals()",
    "locals()['x']=1",
    "class K: pass\n    A[0]=i",
    "async_=1\n    A[async_]=i",
    "try: A[i]=1\n    except Exception: A[0]=i",
    "try: pass\n    finally: A[0]=i",
    "assert A.sort() is None",
    "if A.sort() is None: pass",
    "while A.sum()<0: A[0]+=1",
    "x=[k for k in range(3) if A.sort()]",
    "B[A.argsort()]=i",
    "d[i]=1\n    for k in d: pass",
    "d[i]=1\n    x=list(d)",
    "d[i]=1\n    x=d.keys()\n    B[0]=3",
    "d[i]=1\n    if i in d: B[0]=1",
    "L[i]=1\n    x=sum(L)\n    B[i]=x",
    "L[i]=1\n    B[i]=max(L)",
    "L[i]=A\n    L[0][0]=i",
    "L[i]=A\n    L[i][0]=i",
    "M[i]=1\n    B[i]=M.sum()",
    "M[i]=1\n    B[i]=(M@M).sum()",
    "B[i]=[M][0].sum()\n    M[i]=1",
    "A[i]=np.max(A)",
    "A[i]=A@B",
    "A[i]=A[np.newaxis].sum()",
    "A[i]=len(set(A))",
    "A[i]=A.tolist()[0]",
    "A[i]=float(A[0])",
    "A[i]=A.item(0)",
    "A[i]=(A>3).sum()",
    "A[i]=any(A)",
    "A[i]=A[::2][i]",
    "A[i]=B[A.astype(int)[0]]",
    "print(A[i])",
    "raise_=A[i]\n    A[raise_ if 0 else 0]=1",
    "x=A\n    del x\n    A[0]=i",
    "yield_=A\n    yield_[0]+=A[1]",
    "A[0],B[i]=i,i",
    "A[0]=B[i]=i",
    "for A[0] in range(3): pass",
]
